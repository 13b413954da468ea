/** What the client takes and gives. Types alone. */
import type { CommandRequest, Receipt } from '../commands.ts'
import type { Frame } from '../frames.ts'
import type { HistoryPage } from '../pages.ts'
import type { ClientState } from '../state.ts'
import type { PortLike } from './shared-messages.ts'

export interface WorkerRef {
  readonly runtime: string
  readonly worker: string
}

/** One worker, all workers of a Runtime that the viewer may observe, or up to 100 named ones. */
export type Selection = WorkerRef | { readonly runtime: string } | { readonly workers: readonly WorkerRef[] }

/**
 * What may be believed of the state that is shown. `since` is the time of the last byte that arrived, in
 * milliseconds since the epoch; null where none ever did.
 */
export type ConnectionState =
  /** Whole, and each further frame arrives as it happens. */
  | { readonly state: 'live' }
  /** Connecting for the first time, or taking in what was missed. */
  | { readonly state: 'catching_up' }
  /** The connection was lost or fell silent; another attempt follows. */
  | { readonly state: 'stale'; readonly since: number | null }
  /** The last attempt reached nobody, or the connection was dropped on purpose. Attempts go on unless dropped. */
  | { readonly state: 'offline'; readonly since: number | null; readonly dropped?: true }
  /** 401: no attempt follows. */
  | { readonly state: 'signed_out'; readonly since: number | null; readonly code?: string }
  /** 403, 404 or another answer that a retry cannot change: no attempt follows. */
  | { readonly state: 'denied'; readonly since: number | null; readonly code?: string }
  | { readonly state: 'closed' }

/** The clock and its timers, replaceable for tests. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  setTimeout(run: () => void, delayMs: number): unknown
  clearTimeout(timer: unknown): void
}

/** As much of the DOM's `EventSource` as is used. */
export interface EventSourceLike {
  readonly readyState: number
  addEventListener(name: string, listener: (event: { data?: unknown; lastEventId?: string }) => void): void
  close(): void
}

/** As much of the DOM's `SharedWorker` as is used. */
export interface SharedWorkerLike {
  readonly port: PortLike
  addEventListener(name: 'error', listener: () => void): void
}

export interface Share {
  /** Called for every connection. `() => new SharedWorker(…)` of a script that calls `serveSharedStreams()`. */
  readonly connect: () => SharedWorkerLike
  /** Who is signed in. Only clients that name the same viewer, token and selection share a stream. */
  readonly viewer: string
}

export interface ShojiClientOptions {
  /** Base of all requests: '' for the page's own origin, or `https://host[/path]` without a slash at its end. */
  readonly url: string
  readonly selection: Selection
  /** Items in a fresh snapshot, 0 to 1,000; the server's default is 100. */
  readonly history?: number
  /** Bearer token, or how to get one; asked before every connection. Not with `eventsource`. */
  readonly token?: string | (() => string | Promise<string>)
  readonly transport?: 'fetch' | 'eventsource'
  /**
   * The newest state that is whole: at most once per 16 ms, and never half a burst. States are immutable and
   * share what did not change, so `===` tells what did.
   */
  readonly onState: (state: ClientState) => void
  /** Every frame as it arrives, bursts included. */
  readonly onFrame?: (frame: Frame) => void
  readonly onConnection?: (connection: ConnectionState) => void
  /** Ends the client for good, as `close()` does. */
  readonly signal?: AbortSignal
  /**
   * Items of one worker past which the client starts afresh with a snapshot, so that a tab left open for
   * weeks stays small. Default 10,000, at least 2,000.
   */
  readonly maxItems?: number
  /**
   * Shares one stream between the tabs of a browser, where it has shared workers and the script loads; else
   * this tab has a stream of its own. Not with a `token` that is a function: tabs can't tell whose it is.
   */
  readonly share?: Share
  readonly clock?: Clock
  /** 0 to 1, for the jitter. */
  readonly random?: () => number
  readonly fetch?: typeof fetch
  readonly EventSource?: new (url: string) => EventSourceLike
}

export interface CommandOptions {
  /** Sent as `Idempotency-Key`: one for each thing that was meant, so that a retry can be told from a second wish. */
  readonly idempotencyKey?: string
  readonly signal?: AbortSignal
}

export interface HistoryOptions {
  /** The `earlier` cursor of a snapshot or page. */
  readonly before?: string | null
  readonly limit?: number
  readonly signal?: AbortSignal
}

export interface ShojiClient {
  /** The newest whole state. */
  readonly state: ClientState
  readonly connection: ConnectionState
  /** Connects anew at once from the last position, also after `signed_out` and `denied`. */
  reconnect(): void
  /** Drops the connection and keeps the position; `resume()` goes on from there. */
  drop(): void
  resume(): void
  /** Ends it: no timer, listener or connection stays behind. */
  close(): void
  /** Rejects with `ShojiProblem` unless the command was taken (200 or 202). */
  sendCommand(worker: WorkerRef, request: CommandRequest, options?: CommandOptions): Promise<Receipt>
  /** A page of items, newest first. Rejects with `ShojiProblem`: `view_changed` means start from a new snapshot. */
  history(worker: WorkerRef, options?: HistoryOptions): Promise<HistoryPage>
}
