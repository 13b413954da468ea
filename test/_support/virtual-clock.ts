import type { Clock } from '../../src/lib/clock.ts'

interface Timer {
  readonly at: number
  readonly fire: () => void
}

/** Time that moves only when a test says so. */
export class VirtualClock implements Clock {
  readonly #timers = new Set<Timer>()
  readonly #watchers = new Set<() => void>()
  #now: number

  constructor(now = 1_750_000_000_000) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  after(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      if (signal.aborted) {
        resolve()
        return
      }
      const done = () => {
        this.#timers.delete(timer)
        signal.removeEventListener('abort', done)
        resolve()
        this.#changed()
      }
      const timer = { at: this.#now + Math.max(ms, 0), fire: done }
      this.#timers.add(timer)
      signal.addEventListener('abort', done, { once: true })
      this.#changed()
    })
  }

  /** Waits that end by time alone, `Infinity` left out. */
  get pending(): number {
    return [...this.#timers].filter(timer => timer.at !== Number.POSITIVE_INFINITY).length
  }

  /** Milliseconds until each of the waits ends, the nearest first. */
  get waits(): readonly number[] {
    return [...this.#timers].map(timer => timer.at - this.#now).sort((a, b) => a - b)
  }

  /** Lets time pass: timers fire in their order, each at its own moment. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms
    for (;;) {
      const next = [...this.#timers].sort((a, b) => a.at - b.at)[0]
      if (next === undefined || next.at > end) break
      this.#now = Math.max(this.#now, next.at)
      next.fire()
      await new Promise(resolve => setImmediate(resolve))
    }
    this.#now = end
  }

  /** Time passes, but this process sleeps: timers that are due fire late. */
  async oversleep(ms: number): Promise<void> {
    this.#now += ms
    await this.advance(0)
  }

  /** Resolves when a wait that ends in `ms` (or one for which `match` holds) stands. */
  async waiting(match: (ms: number) => boolean): Promise<void> {
    while (!this.waits.some(match)) await new Promise<void>(resolve => this.#watchers.add(resolve))
  }

  #changed(): void {
    const watchers = [...this.#watchers]
    this.#watchers.clear()
    for (const watcher of watchers) watcher()
  }
}
