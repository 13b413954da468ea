import type { Envelope } from '../../journal/entry.ts'
import type { Clock } from '../../lib/clock.ts'
import { asRecord } from '../../lib/json.ts'

/** In `protocol-ws` the last word of a Runtime looks like a failed run's: what follows tells them apart (R46). */
export const mayBeFarewell = (event: string, envelope: Envelope): boolean =>
  event === 'error' && asRecord(asRecord(envelope.parsed).data).code === 'internal'

/**
 * Holds an error that may be the Runtime's goodbye until something follows it, at most `holdMs`. If the end
 * follows, it was about the connection and is dropped: it must not be journaled as the worker's.
 */
export class Farewell {
  readonly #holdMs: number
  readonly #clock: Clock
  readonly #paused: () => boolean
  readonly #handOn: (envelope: Envelope) => void
  #held: Envelope | null = null
  #timer = new AbortController()

  constructor(holdMs: number, clock: Clock, paused: () => boolean, handOn: (envelope: Envelope) => void) {
    this.#holdMs = holdMs
    this.#clock = clock
    this.#paused = paused
    this.#handOn = handOn
  }

  get held(): boolean {
    return this.#held !== null
  }

  hold(envelope: Envelope): void {
    this.#held = envelope
    this.#timer = new AbortController()
    const { signal } = this.#timer
    void this.#clock.after(this.#holdMs, signal).then(() => {
      if (signal.aborted) return
      // While the socket stands still, neither a next frame nor a close can be seen.
      if (this.#paused()) this.hold(envelope)
      else this.release()
    })
  }

  /** It was the worker's after all. */
  release(): void {
    const envelope = this.#held
    this.drop()
    if (envelope !== null) this.#handOn(envelope)
  }

  drop(): void {
    // Asked with every frame, and an abort costs more than all the rest of one.
    if (this.#held === null) return
    this.#held = null
    this.#timer.abort()
  }
}
