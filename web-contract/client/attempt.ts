/** The seam between the client and its two transports: one attempt is one connection, from open to end. */
import type { ShojiProblem } from './requests.ts'
import type { Interrupted } from './shared-messages.ts'
import type { SseEvent } from './sse.ts'

export interface Attempt {
  /** The stream's address; with `cursor` for a position that can't travel in a header. */
  readonly url: (cursor?: string) => string
  /** Id of the last frame that had one. */
  readonly position: () => string | null
  /** Ends the attempt: a silent connection, `drop()`, `close()`. */
  readonly signal: AbortSignal
  readonly onBytes: () => void
  /** Throws where the connection is not worth going on with; a `ShojiProblem` ends all attempts. */
  readonly onEvent: (event: SseEvent) => void
  readonly onRetry: (retryMs: number) => void
  /** Whoever holds the connection is there, though nothing came over it. */
  readonly onAlive: () => void
  /** The connection was lost and the transport itself goes on from the last id. */
  readonly onInterrupted: (as?: Interrupted) => void
}

export type Ended =
  /** Nobody answered. */
  | { readonly why: 'unreached' }
  /** An answer came, and then no more. */
  | { readonly why: 'lost'; readonly retryMs?: number }
  /** Trying again can't help. */
  | { readonly why: 'refused'; readonly problem: ShojiProblem }
