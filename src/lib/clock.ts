/** Time as loops see it: injected, so that a test can let an hour pass in a moment. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /**
   * Resolves after `ms`, or as soon as the signal aborts, whichever comes first; never rejects and leaves no
   * listener. `Infinity` waits for the signal alone. At most 2^31 - 1 ms at once: longer waits end early.
   */
  after(ms: number, signal: AbortSignal): Promise<void>
}

const TIMER_MAX_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  after: (ms, signal) =>
    new Promise(resolve => {
      if (signal.aborted) {
        resolve()
        return
      }
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        resolve()
      }
      const timer =
        ms === Number.POSITIVE_INFINITY
          ? undefined
          : setTimeout(done, Math.min(Math.max(ms, 0), TIMER_MAX_MS))
      signal.addEventListener('abort', done, { once: true })
    }),
}
