/** What passes between the main thread and the writer: flat values, since each message is copied. */
import type { QuarantinedFrame, RetentionRules, StreamRef } from '../journal.ts'
import type { Failure } from './failure.ts'

export type Cell = string | number | null

/** Columns of `entries` in the order in which rows are flattened. */
export const ENTRY_COLUMNS = [
  'seq',
  'stream',
  'incarnation',
  'time',
  'item_seq',
  'item_index',
  'replaces',
  'mark',
  'bytes',
  'event',
  'event_id',
  'context',
  'payload',
] as const
export const ENTRY_WIDTH = ENTRY_COLUMNS.length

export interface CommitRequest {
  readonly kind: 'commit'
  /** Rows of `ENTRY_COLUMNS`, one after the other, in order of seq. */
  readonly cells: readonly Cell[]
  /** (stream, incarnation) pairs. */
  readonly incarnations: readonly number[]
  readonly checkpoints: readonly {
    readonly stream: number
    readonly seq: number
    readonly version: number
    readonly state: string
    /** Nothing is open at it: retention may cut here. */
    readonly clean: boolean
    /** No entry of the stream up to `seq` is younger. */
    readonly time: number
  }[]
  readonly positions: readonly { readonly stream: number; readonly position: string }[]
}

interface CommitReply {
  /** Seqs that were not stored because their event is stored already. */
  readonly repeated: readonly number[]
  readonly ms: number
}

export interface StreamReply {
  readonly id: number
  readonly profile: string | null
  readonly incarnation: number
  readonly lastDeleted: number
}

/** Everything of `stream` up to `upTo` goes; with `erase` its checkpoints up to there as well. */
export interface Cut {
  readonly stream: number
  readonly upTo: number
  readonly erase: boolean
}

export interface Requests {
  commit: { request: CommitRequest; reply: CommitReply }
  openStream: { request: { kind: 'openStream'; ref: StreamRef; profile: string | null }; reply: StreamReply }
  setProfile: { request: { kind: 'setProfile'; stream: number; profile: string | null }; reply: null }
  quarantine: { request: { kind: 'quarantine'; frame: QuarantinedFrame }; reply: null }
  /** What the rules allow to go now, by `by`; nothing is deleted. */
  plan: { request: { kind: 'plan'; by: 'age' | 'size'; rules: RetentionRules; now: number }; reply: Cut[] }
  /** Deletes at most `rows` entries of a cut. */
  cut: { request: { kind: 'cut'; cut: Cut; rows: number }; reply: { deleted: number; done: boolean } }
  /** Deletes quarantined frames received before `before`, or all of one stream's, with its upstream position. */
  forget: {
    request: { kind: 'forget'; stream: number } | { kind: 'forget'; before: number; runtime: string | null }
    reply: null
  }
  /** Gives free pages back to the file system; `left` says how many remain. */
  shrink: { request: { kind: 'shrink'; pages: number }; reply: { left: number } }
  /** Empties the WAL into the file and truncates it. */
  checkpoint: { request: { kind: 'checkpoint' }; reply: null }
  backup: { request: { kind: 'backup'; path: string }; reply: null }
  /** For tests: a bound on the file's pages, so that a full disk can be had. Zero lifts it. */
  limitPages: { request: { kind: 'limitPages'; pages: number }; reply: { pages: number } }
  close: { request: { kind: 'close' }; reply: null }
}

export type Kind = keyof Requests
export type Request = Requests[Kind]['request']
export type Reply<K extends Kind> = Requests[K]['reply']

export interface WriterOptions {
  readonly path: string
  /** The WAL is emptied before it reaches this; one larger transaction may pass it. */
  readonly walCapBytes: number
  /** For tests and benches: the writer sleeps this long after each commit, as on a slow disk. */
  readonly syncDelayMs: number
  readonly quarantine: { readonly maxFrames: number; readonly maxBytes: number }
}

export interface Answer {
  readonly id: number
  readonly reply?: Requests[Kind]['reply']
  readonly failure?: Failure
}
