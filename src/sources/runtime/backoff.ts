export interface BackoffLimits {
  /** Ceiling of the first wait. */
  readonly baseMs: number
  /** Ceiling of all waits. */
  readonly maxMs: number
}

/**
 * Full jitter: anything from nothing to a ceiling that doubles with each failure, so that connections that
 * fell together do not come back together. `attempt` counts from 0; `random` returns [0, 1).
 */
export const backoffMs = (attempt: number, random: () => number, limits: BackoffLimits): number =>
  random() * Math.min(limits.maxMs, limits.baseMs * 2 ** Math.min(attempt, 30))
