/**
 * The policy document: closed, versioned, without expressions, so that nothing in it can fail at run time.
 */
import { createHash } from 'node:crypto'
import type { Class, CommandName, Level } from '@shoji/web-contract'

/** Stands for every name, and only alone: a longer name with a `*` in it is just that name. */
export const ANY = '*'

type ClassLevels = Readonly<Partial<Record<Class, Level>>>

export interface PolicyDocument {
  readonly version: 1
  readonly subjects: Readonly<Record<string, { readonly any: readonly SubjectMatcher[] }>>
  readonly resources: Readonly<Record<string, ResourceMatcher>>
  readonly statements: readonly Statement[]
}

export type SubjectMatcher =
  | { readonly user: string }
  | { readonly role: string }
  | { readonly group: string }

/** Each key that is given must match; each is a list of which one must. */
export interface ResourceMatcher {
  readonly source?: readonly string[] | undefined
  readonly runtime?: readonly string[] | undefined
  readonly worker?: readonly string[] | undefined
  readonly profile?: readonly string[] | undefined
}

export interface Statement {
  readonly id: string
  /** Name of a subject, or `*`. */
  readonly who: string
  /** Name of a resource, or `*`. */
  readonly on: string
  readonly grant?: Effect<boolean> | undefined
  readonly cap?: Effect<false> | undefined
  readonly note?: string | undefined
}

export interface Effect<Observe extends boolean> {
  readonly observe?: Observe | undefined
  readonly classes?: ClassLevels | undefined
  readonly commands?: readonly CommandName[] | undefined
}

/** The shortest valid document: it shows nothing to anyone. */
export const EMPTY_POLICY: PolicyDocument = { version: 1, subjects: {}, resources: {}, statements: [] }

/** Hex SHA-256 of the content: white space, the order of keys, and YAML or JSON make no difference. */
export const documentHash = (document: PolicyDocument): string =>
  createHash('sha256').update(canonical(document)).digest('hex')

/** JSON with sorted keys, without what is undefined. */
export const canonical = (value: unknown): string =>
  JSON.stringify(value, (_key, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  )
