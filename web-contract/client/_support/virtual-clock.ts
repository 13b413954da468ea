import type { Clock } from '../types.ts'

export interface VirtualClock extends Clock {
  /** Runs what falls due within so many milliseconds, in order. */
  advance(ms: number): void
}

/** Time that moves only when the test says so. */
export function virtualClock(): VirtualClock {
  let nowMs = 1_000_000
  let count = 0
  const timers = new Map<number, { at: number; run: () => void }>()
  return {
    now: () => nowMs,
    setTimeout(run, delayMs) {
      count += 1
      timers.set(count, { at: nowMs + delayMs, run })
      return count
    },
    clearTimeout: timer => void timers.delete(timer as number),
    advance(ms) {
      const end = nowMs + ms
      for (;;) {
        const [next] = [...timers].filter(([, t]) => t.at <= end).sort(([, a], [, b]) => a.at - b.at)
        if (next === undefined) break
        timers.delete(next[0])
        nowMs = next[1].at
        next[1].run()
      }
      nowMs = end
    },
  }
}
