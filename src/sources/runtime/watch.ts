import type { Clock } from '../../lib/clock.ts'
import type { RuntimeLimits } from './limits.ts'
import { AWAITED, type State } from './opening.ts'

interface Watched {
  readonly state: State
  readonly paused: boolean
  /** Bytes that came on its socket so far. */
  readonly bytesRead: number
  /** What the state waits for has not come in its time. */
  late(): void
  ping(): void
}

/** A timer that fires so much late says that this process slept, not that the other side was silent. */
const OVERSLEPT_MS = 1_000

/**
 * The time limits of one connection. While it is paused, or this process stands still, nobody's silence is
 * counted. Wakes up for a limit alone, not for each frame.
 */
export class Watch {
  /** When something last came, in milliseconds since the epoch. */
  heardAt: number
  readonly #watched: Watched
  readonly #limits: RuntimeLimits
  readonly #clock: Clock
  #timer = new AbortController()
  #since: number
  #bytesSeen = 0
  #pinged = false

  constructor(watched: Watched, limits: RuntimeLimits, clock: Clock) {
    this.#watched = watched
    this.#limits = limits
    this.#clock = clock
    this.heardAt = this.#since = clock.now()
  }

  heard(): void {
    this.heardAt = this.#clock.now()
    this.#pinged = false
  }

  /** The state has changed, or reading goes on after a pause: its time begins now. */
  begin(): void {
    this.heardAt = this.#since = this.#clock.now()
    this.#arm()
  }

  end(): void {
    this.#timer.abort()
  }

  #due(): number {
    const { handshakeMs, snapshotMs, fenceMs, pingAfterMs, silentMs } = this.#limits
    const awaited = AWAITED[this.#watched.state]
    if (awaited === 'upgrade') return this.#since + handshakeMs
    if (awaited === 'snapshot') return this.heardAt + snapshotMs
    if (awaited === 'fence') return this.#since + fenceMs
    return this.heardAt + (this.#pinged ? silentMs : pingAfterMs)
  }

  #arm(): void {
    this.#timer.abort()
    this.#timer = new AbortController()
    const { signal } = this.#timer
    this.#bytesSeen = this.#watched.bytesRead
    // Bounded, so that a clock that was set back does not put it off.
    const wait = Math.min(Math.max(this.#due() - this.#clock.now(), 0), this.#limits.silentMs)
    void this.#clock.after(wait, signal).then(() => {
      if (!signal.aborted) this.#look()
    })
  }

  #look(): void {
    const now = this.#clock.now()
    const due = this.#due()
    const { state, paused, bytesRead } = this.#watched
    if (paused || now - due > OVERSLEPT_MS) this.heardAt = this.#since = now
    else if (now >= due) {
      const awaited = AWAITED[state]
      const onlyTotal = awaited === 'upgrade' || awaited === 'fence'
      // A large frame on a slow line is not silence, although no message has come.
      if (!onlyTotal && bytesRead !== this.#bytesSeen) this.heard()
      else if (state !== 'believed' || this.#pinged) {
        this.#watched.late()
        return
      } else {
        this.#pinged = true
        this.#watched.ping()
      }
    }
    this.#arm()
  }
}
