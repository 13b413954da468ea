/**
 * The seam between sources and the journal. A source brings envelopes of workers in; ingest alone decides
 * what becomes of them. Calls are synchronous and never block: a source that sees `pressure` past the bound
 * stops reading its sockets, the largest sender first.
 */
import type { ResetReason, UpstreamState } from '@shoji/web-contract'
import type { Envelope } from '../journal/entry.ts'
import type { QuarantinedFrame, StreamRef } from '../journal/journal.ts'

/** One worker's way into the journal. */
export interface StreamIngest {
  /** True where the journal already holds a list of this worker: the next `begin` is then a reset. */
  readonly known: boolean
  /**
   * A connection was believed (its fence has passed): a new incarnation begins with this snapshot. `reason`
   * says why the list is replaced, and is left out of account on a stream's first snapshot.
   */
  begin(snapshot: Envelope, reason: ResetReason): void
  /** One live event. A repetition of an `eventId` within the incarnation is dropped and counted. */
  accept(envelope: Envelope): void
  /** A frame that could not be taken: into quarantine, with an announced gap. */
  reject(frame: Omit<QuarantinedFrame, 'stream'>): void
  /** The worker stopped and only its stand-in snapshot is to be had: the list stays, what is open is closed. */
  stopped(time: number): void
}

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
