import { stringifyJson } from '../lib/json.ts'
import { asSeq, type BlockKind, type EndedBlock, type Key, type Seq, type UnsaidItem } from './entry.ts'

/**
 * What of a stream is open at a position: what ingest needs to resolve the next entry's context, and what a
 * snapshot adds to the newest page of items. Bounded: see `LIMITS`.
 */
export interface OpenState {
  /** Seq of the newest list-replacing entry; 0 before the first. */
  replacing: Seq
  status: string | null
  usage?: unknown
  greeting?: unknown
  /** Items of the run since its first user message; null outside of one. */
  run?: UnsaidItem[] | null
  /** By session id of an internal worker; '' is the worker itself. */
  readonly scopes: Map<string, Scope>
  /** Calls of the current list by scope and call id, newest last. */
  readonly calls: Map<string, Call>
  /** Commands by scope and command id, newest last. */
  readonly commands: Map<string, Command>
}

export interface OpenBlock {
  readonly key: Key
  readonly item: Key
  readonly kind: BlockKind
  readonly tool?: string | null
  seen: string[]
}

export interface Scope {
  /** An internal worker as it was last told, and its status. */
  worker?: Readonly<Record<string, unknown>>
  status?: string
  text?: OpenBlock | undefined
  thinking?: OpenBlock | undefined
}

export interface Call {
  readonly key: Key
  readonly id: string
  tool: string | null
  seen: string[]
  open: boolean
}

export interface Command {
  readonly item: Key
  readonly tool: string | null
  /** The call it belongs to, by its key in `calls`, where it is known. */
  readonly call?: string
  seen: string[]
  stdout?: OpenBlock | undefined
  stderr?: OpenBlock | undefined
}

export const LIMITS = { scopes: 65, calls: 2_000, openCalls: 256, commands: 256, runItems: 64 } as const

export const emptyOpenState = (): OpenState => ({
  replacing: asSeq(0),
  status: null,
  scopes: new Map(),
  calls: new Map(),
  commands: new Map(),
})

export const scoped = (scope: string, id: string): string => `${scope}\u0000${id}`

/** A block or call that may still grow, and whose it is. */
export type StillOpen = EndedBlock & { readonly scope: string; readonly call?: string }

/** Every block and call that is open, oldest first. */
export function openBlocks(state: OpenState): StillOpen[] {
  const found: StillOpen[] = []
  for (const [scope, { text, thinking }] of state.scopes)
    for (const block of [text, thinking]) if (block !== undefined) found.push({ ...ended(block), scope })
  for (const [id, call] of state.calls)
    if (call.open) found.push({ ...endedCall(call), call: call.id, scope: id.slice(0, id.indexOf('\u0000')) })
  for (const [id, command] of state.commands)
    for (const block of [command.stdout, command.stderr])
      if (block !== undefined) found.push({ ...ended(block), scope: id.slice(0, id.indexOf('\u0000')) })
  return found.sort((a, b) => a.key.seq - b.key.seq || a.key.index - b.key.index)
}

export const ended = (block: OpenBlock): EndedBlock => ({
  key: block.key,
  item: block.item,
  kind: block.kind,
  ...(block.tool !== undefined && { tool: block.tool }),
  seen: [...block.seen],
})

export const endedCall = (call: Call): EndedBlock => ({
  key: call.key,
  item: call.key,
  kind: 'call',
  tool: call.tool,
  seen: [...call.seen],
})

/** A copy that later steps do not touch. */
export const copyOpenState = (state: OpenState): OpenState => structuredClone(state)

/** Version of the fold: a checkpoint of another version is folded anew. */
export const OPEN_STATE_VERSION = 2

type EncodedOpenState = Omit<OpenState, 'scopes' | 'calls' | 'commands'> & {
  readonly scopes: [string, Scope][]
  readonly calls: [string, Call][]
  readonly commands: [string, Command][]
}

export const encodeOpenState = (state: OpenState): string =>
  stringifyJson({
    ...state,
    scopes: [...state.scopes],
    calls: [...state.calls],
    commands: [...state.commands],
  })

/** Takes what `encodeOpenState` wrote, parsed with its integers exact. */
export function decodeOpenState(parsed: unknown): OpenState {
  const raw = parsed as EncodedOpenState
  return {
    ...raw,
    scopes: new Map(raw.scopes),
    calls: new Map(raw.calls),
    commands: new Map(raw.commands),
  }
}
