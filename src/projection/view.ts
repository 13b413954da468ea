import type { Class, CommandName, Level } from '@shoji/web-contract'

/**
 * What one viewer may see of one stream: the compiled result of a policy, as tables. Viewers whose views
 * hash alike share one projection and one set of bytes.
 */
export interface View {
  /** False: the stream does not exist for this viewer. */
  readonly observe: boolean
  readonly levels: Readonly<Record<Class, Level>>
  /** Levels of the `tool_*` classes for one tool by name; a tool that is not named has `levels`. */
  readonly tools?: ReadonlyMap<string, Readonly<Partial<Record<Class, Level>>>>
  /** For a tool whose name is not known. Absent: as `levels`. */
  readonly unknownTool?: Readonly<Partial<Record<Class, Level>>>
  readonly commands: readonly CommandName[]
  /** Hex of the hash of all of the above: equal hash, equal projection. */
  readonly hash: string
}

/** Who asks, as identity established it. */
export interface Subject {
  readonly user: string
  readonly roles: readonly string[]
  readonly groups: readonly string[]
  /** When the identity ends, in milliseconds since the epoch. */
  readonly expiresAt?: number
}

/** What is asked about. */
export interface Resource {
  readonly source: 'runtime' | 'mcp'
  readonly runtime: string
  readonly worker: string
  readonly profile: string | null
}

/** A policy version compiled to tables. Pure and total: no input makes it throw. */
export interface CompiledPolicy {
  /** Hex content hash of the document. */
  readonly hash: string
  view(subject: Subject, resource: Resource): View
  /** Hash of everything the policy says of this subject, whatever the resource: equal hash, equal views. */
  subjectHash(subject: Subject): string
}
