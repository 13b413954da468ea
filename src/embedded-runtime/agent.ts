import type { RuntimeEvent } from './events.ts'
import type { Json } from './json.ts'
import type { EmbeddedWorker } from './worker.ts'

export interface AgentRun {
  readonly segments: readonly Json[]
  readonly text: string
  /**
   * `user_send` and `system` by REST, `initial` with the worker's creation, `method` and `notify` by
   * protocol method.
   */
  readonly trigger: 'user_send' | 'initial' | 'method' | 'system' | 'notify'
  /** The turn goes on after a pause: the model is asked anew (R53). */
  readonly resumed: boolean
  /** Events of the log that race with the engine's: the agent emits them after its first model call began (R47). */
  readonly late: readonly RuntimeEvent[]
  /** Fires when the turn is cancelled, paused or stopped; the worker emits what that looks like. */
  readonly signal: AbortSignal
}

/**
 * What answers inputs: emits everything from `turn_start` to `run_end`, and nothing once the signal
 * fired. The worker itself emits the events before and the `status` after.
 */
export type Agent = (worker: EmbeddedWorker, run: AgentRun) => Promise<void>
