import type { Clock } from './clock.ts'

/** One sleeper that can be woken. Level-triggered: a call that comes while nobody sleeps ends the next sleep. */
export class Wake {
  readonly #clock: Clock
  #called = false
  #sleep: AbortController | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  call(): void {
    this.#called = true
    this.#sleep?.abort()
  }

  /** Forgets a call that came before: what it was about is looked at now. */
  clear(): void {
    this.#called = false
  }

  /** Resolves after `ms`, when called, or when the signal aborts; never rejects. */
  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#called && !signal.aborted) {
      const sleep = new AbortController()
      const end = () => sleep.abort()
      signal.addEventListener('abort', end, { once: true })
      this.#sleep = sleep
      await this.#clock.after(ms, sleep.signal)
      signal.removeEventListener('abort', end)
      this.#sleep = null
    }
    this.#called = false
  }
}
