/**
 * The seam between sources and the journal. A source brings envelopes of workers in; ingest alone decides
 * what becomes of them. Calls are synchronous and never block: a source that sees `pressure` past the bound
 * stops reading its sockets, the largest sender first.
 */
import type { ResetReason, UpstreamState } from '@shoji/web-contract'
import type { Envelope } from '../journal/entry.ts'
import type { QuarantinedFrame, StreamRef } from '../journal/journal.ts'

export type Dialect = 'events-ws' | 'protocol-ws'

/** How a snapshot's own telling compares with what the stream was told; see `continuity`. */
export interface HeldAgainst {
  readonly comparison: 'same' | 'more' | 'differs'
  /** It says nothing. */
  readonly empty: boolean
  /** The snapshot's status. */
  readonly status: string
}

/** What a resume must be proven against. */
export interface ResumeProof {
  /** The last events of the incarnation, oldest first, at most 16; `cursor` is their upstream cursor. */
  readonly events: readonly {
    readonly cursor: string
    readonly eventId: string
    readonly mac: string
    readonly distinctive: boolean
  }[]
  /** The incarnation's snapshot, where no event ever followed it. */
  readonly snapshot: { readonly cursor: string; readonly mac: string } | null
  readonly status: string | null
  readonly saysNothing: boolean
}

/** Why a list is replaced, and what of it is known to differ. */
export interface Beginning {
  readonly reason: ResetReason
  readonly dialect: Dialect
  /** Events came between the snapshot and its fence. */
  readonly followed: boolean
}

/** Whether a fresh snapshot should be fetched beside the connection, and whether now is a time for it. */
export interface ResyncNeed {
  readonly due: boolean
  /** The worker is at rest: `status idle`, or 2 s of silence outside a run. */
  readonly idle: boolean
  /** Moves with every event of the stream: a snapshot is thrown away if it moved between asking and reading. */
  readonly version: number
}

/** One worker's way into the journal. */
export interface StreamIngest {
  /** True where the journal already holds a list of this worker: the next `begin` is then a reset. */
  readonly known: boolean
  /**
   * A connection was believed (its fence has passed): a new incarnation begins with this snapshot. The reason
   * says why the list is replaced, and is left out of account on a stream's first snapshot.
   */
  begin(snapshot: Envelope, beginning: Beginning): void
  /** What the next connection must prove; null where nothing can be proven and `begin` is the only way. */
  proof(): Promise<ResumeProof | null>
  /** MAC of a payload as it arrived, as the proof's are made. */
  macOf(payload: string): string
  /** Holds a snapshot against the stream, changing nothing. */
  holdAgainst(snapshot: Envelope): HeldAgainst
  /** A proven resume was compared at its fence and both sides run: a later idle decides. */
  resyncDue(): void
  /** One live event. A repetition of an `eventId` within the incarnation is dropped and counted. */
  accept(envelope: Envelope): void
  /** A frame that could not be taken: into quarantine, with an announced gap. */
  reject(frame: Omit<QuarantinedFrame, 'stream'>): void
  /**
   * The connection ended. `resumable`: the next one may be proven to go on, so what is held stays held; else
   * what is held is settled.
   */
  closed(resumable: boolean): void
  /** The worker stopped and only its stand-in snapshot is to be had: the list stays, what is open is closed. */
  stopped(time: number): void
  readonly resync: ResyncNeed
  /** Called whenever `resync` may have changed. One listener; null takes it away. */
  onResync(listener: (() => void) | null): void
  /**
   * Takes a resting snapshot that was fetched beside the connection while nothing came. `same` and `adopted`
   * (missing items were journaled) settle the matter; on `differs` the source connects anew and begins with
   * the reason given here.
   */
  resyncWith(snapshot: Envelope): ResyncOutcome
}

export type ResyncOutcome =
  /** `thrown_away`: it is ahead of the connection, and another one is wanted. */
  | { readonly outcome: 'same' | 'adopted' | 'thrown_away' }
  | { readonly outcome: 'differs'; readonly reason: 'upstream_resynced' | 'compacted' }

export interface SourceSink {
  /** Finds or makes the stream of a worker. */
  open(ref: StreamRef, profile: string | null): Promise<StreamIngest>
  /** The listing told another profile. */
  profileChanged(ref: StreamRef, profile: string | null): Promise<void>
  /** Bytes of frames that were handed in and are not yet durable. */
  readonly queuedBytes: number
  readonly maxQueuedBytes: number
  /** Resolves when `queuedBytes` has fallen under half of the bound. */
  relieved(signal: AbortSignal): Promise<void>
  /** State of the connection to a Runtime (without worker) or of one worker's. */
  status(change: StatusChange): void
}

export interface StatusChange {
  readonly runtime: string
  readonly worker?: string
  readonly upstream: UpstreamState
  readonly code?: string
  /** Milliseconds since the epoch. */
  readonly since: number
}

/** What a source counts, one function for each thing that happens; observability hangs its counters here. */
export interface SourceEvents {
  readonly connected: (at: { runtime: string; worker: string }) => void
  readonly disconnected: (at: { runtime: string; worker: string; code: string; opened: boolean }) => void
  readonly rejected: (at: {
    runtime: string
    worker: string
    cause: QuarantinedFrame['cause']
    bytes: number
  }) => void
  /** A connection that asked to go on with the list was judged; where it is not proven, by the reason. */
  readonly judged: (at: {
    runtime: string
    worker: string
    verdict:
      | 'proven'
      | 'retry_from_zero'
      | 'stand_in'
      | 'upstream_restarted'
      | 'upstream_gap'
      | 'upstream_unverifiable'
  }) => void
  /** A snapshot was fetched beside the connection. */
  readonly resynced: (at: {
    runtime: string
    worker: string
    outcome: ResyncOutcome['outcome'] | 'thrown_away' | 'failed'
  }) => void
  readonly paused: (at: { runtime: string; worker: string; queuedBytes: number }) => void
  readonly discovered: (at: { runtime: string; workers: number; beyondLimit: number }) => void
  readonly discoveryFailed: (at: { runtime: string; code: string }) => void
}

/** A worker as its source lists it. */
export interface ListedWorker {
  readonly worker: string
  readonly profile: string | null
  /** The upstream's own word for the worker's life. */
  readonly status: string
  readonly displayName?: string
}

export interface Source {
  readonly runtime: string
  /** Runs until the signal aborts; rejects only for what no retry can mend. */
  run(signal: AbortSignal): Promise<void>
  /** The workers of the last good listing. */
  workers(): readonly ListedWorker[]
  /** A viewer asked for a worker that does not run: it is connected once for its snapshot. */
  wanted(worker: string): void
  /** Forwards a user's message; resolves with the Runtime's answer or rejects with a typed error. */
  sendInput(worker: string, content: string, signal: AbortSignal): Promise<void>
  upstream(worker?: string): StatusChange
}
