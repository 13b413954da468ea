/**
 * The seam between ingest and everything that reads. The first implementation is one SQLite file
 * (`sqlite/`); one on a distributed log will follow, so nothing above may assume more than this.
 * Every implementation runs `test/suites/journal-suite.ts`.
 */
import type { Entry, Key, Seq, StreamId } from './entry.ts'

export interface StreamRef {
  readonly source: 'runtime' | 'mcp'
  readonly runtime: string
  readonly worker: string
}

export interface StreamRecord extends StreamRef {
  readonly id: StreamId
  /** The profile under which the worker was last listed; null while it is not known. */
  readonly profile: string | null
  /** Number of its newest incarnation; 0 before the first. */
  readonly incarnation: number
  /** Everything of the stream up to here was deleted by retention; 0 if nothing was. */
  readonly lastDeleted: Seq
}

/** A fold of everything up to and including `seq`, so that a start need not read a stream from its beginning. */
export interface Checkpoint {
  readonly stream: StreamId
  readonly seq: Seq
  /** Version of the code that folded it: another version refolds. */
  readonly version: number
  /** JSON text, at most 1 MiB. */
  readonly state: string
  /** A block or call is open at it, so retention must not cut here. Told on write alone. */
  readonly open?: true
}

/** What is committed in one transaction. */
export interface AppendBatch {
  readonly entries: readonly Entry[]
  /** A new incarnation of a stream begins with this batch's entries of it. */
  readonly incarnations?: readonly { readonly stream: StreamId; readonly incarnation: number }[]
  readonly checkpoints?: readonly Checkpoint[]
  /** Upstream positions by stream: opaque JSON text of the source. */
  readonly positions?: readonly { readonly stream: StreamId; readonly position: string }[]
}

/** One durable commit. Every entry in it survives a crash; `entries` holds them in order of seq. */
export interface Commit {
  /** The durable head before it. */
  readonly after: Seq
  /** The durable head now. */
  readonly head: Seq
  readonly entries: readonly Entry[]
}

export interface Page {
  readonly entries: readonly Entry[]
  /** Every entry of the asked streams up to here is in this page or before it. */
  readonly through: Seq
  /** Nothing more of the asked streams lay between `through` and the durable head when it was read. */
  readonly atHead: boolean
  /** Asked streams of which something after the asked position is deleted; their entries begin behind that. */
  readonly expired?: readonly StreamId[]
}

export interface Generation {
  /** Random, unique in the journal, 0 to 2^32 - 1. */
  readonly id: number
  /** The first seq it may use. */
  readonly first: Seq
}

export type JournalHealth =
  | { readonly state: 'ok' }
  | {
      readonly state: 'unavailable'
      readonly code: 'disk_full' | 'journal_damaged' | 'journal_unavailable'
      readonly since: number
    }

export interface QuarantinedFrame {
  readonly stream: StreamId
  readonly time: number
  readonly cause: 'too_large' | 'malformed' | 'foreign_worker' | 'binary'
  /** Whole size in bytes; the body kept is bounded. */
  readonly bytes: number
  readonly body: string
}

export interface PageLimits {
  readonly maxRows: number
  readonly maxBytes: number
}

export interface Journal {
  /** The streams as of the durable head and those opened since. */
  streams(): Promise<readonly StreamRecord[]>
  /** Finds or makes the stream; durable when it resolves. */
  openStream(ref: StreamRef, profile: string | null): Promise<StreamRecord>
  setProfile(stream: StreamId, profile: string | null): Promise<void>

  /** The first seq that ingest may use in this generation. */
  readonly firstSeq: Seq
  /** Generations in order; the last is the open one. */
  readonly generations: readonly Generation[]
  /** 16 bytes for cursors and 32 for ids, made with the journal and kept in it. */
  readonly keys: { readonly cursor: Buffer; readonly id: Buffer }

  /**
   * Queues entries for the next commit; their seqs must go on strictly increasing. Never blocks. What is
   * queued is bounded by the caller, who watches `queuedBytes` and stops reading its sources.
   * An entry whose (stream, incarnation, eventId) is stored already is dropped and counted.
   */
  append(batch: AppendBatch): void
  readonly queuedBytes: number
  /** Resolves when every entry up to `seq` is durable (or was dropped as a repetition). Rejects on close. */
  durable(seq: Seq, signal?: AbortSignal): Promise<void>
  /** The durable head: nothing after it has been shown to anyone. */
  readonly head: Seq
  /** Level-triggered: resolves at once if the durable head lies beyond `seq`, else with the next commit. */
  changedSince(seq: Seq, signal: AbortSignal): Promise<Seq>
  /** Called after each commit, in order, before `changedSince` resolves. Returns how to stop. */
  onCommit(listener: (commit: Commit) => void): () => void

  readonly health: JournalHealth
  onHealth(listener: (health: JournalHealth) => void): () => void

  /** Entries of the streams after a position, in order of seq, by the index on (stream, seq), never past the durable head. */
  readAfter(streams: readonly StreamId[], after: Seq, limits: PageLimits): Promise<Page>
  readEntry(seq: Seq): Promise<Entry | null>
  /**
   * Marked entries of a stream that lie before `before` and not before `from`, newest first, and the newest
   * list-replacing entry itself although it touches no item of its own.
   */
  readMarks(stream: StreamId, before: Seq, from: Seq, limits: PageLimits): Promise<readonly Entry[]>
  /**
   * Entries that touch one item, in order of seq, after `item.seq` or at it, up to and including `through`;
   * with `which: 'marks'` only those that are marked. `after` continues a page that was full.
   */
  readItem(
    stream: StreamId,
    item: Key,
    through: Seq,
    limits: PageLimits,
    which?: 'marks' | 'all',
    after?: Seq,
  ): Promise<Page>
  /** The newest list-replacing entry at or before `through`. */
  readReplacing(stream: StreamId, through: Seq): Promise<Entry | null>
  readCheckpoint(stream: StreamId, through: Seq): Promise<Checkpoint | null>
  readPosition(stream: StreamId): Promise<string | null>

  /** Bounded: past the limits the oldest go. Resolves when durable. */
  quarantine(frame: QuarantinedFrame): Promise<void>
  readQuarantine(limit: number): Promise<readonly (QuarantinedFrame & { readonly id: number })[]>

  /** Deletes what the rules allow, in slices; see `sqlite/retention.ts`. */
  retain(rules: RetentionRules, now: number): Promise<{ deleted: number }>
  /** Erases one stream's entries, checkpoints and quarantine; it keeps its `lastDeleted`. */
  purge(stream: StreamId): Promise<void>
  stats(): Promise<JournalStats>

  close(): Promise<void>
}

export interface RetentionRules {
  readonly maxAgeMs?: number
  readonly maxBytes?: number
  readonly maxEntries?: number
  /** Rules may be given for one Runtime alone. */
  readonly runtime?: string
  /** Rows deleted in one transaction, default 500. */
  readonly sliceRows?: number
}

export interface JournalStats {
  readonly entries: number
  readonly streams: number
  readonly fileBytes: number
  readonly walBytes: number
  readonly head: Seq
  readonly repeated: number
  readonly commits: number
  readonly commitMs: number
  readonly quarantined: number
}
