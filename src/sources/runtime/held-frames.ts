import type { Envelope } from '../../journal/entry.ts'
import type { QuarantinedFrame } from '../../journal/journal.ts'

export type RejectedFrame = Omit<QuarantinedFrame, 'stream'>

export type Taken =
  | {
      readonly kind: 'event' | 'snapshot'
      readonly event: string
      readonly envelope: Envelope
      readonly bytes: number
    }
  | { readonly kind: 'unreadable'; readonly frame: RejectedFrame; readonly bytes: number }

/** What came between a snapshot and its fence, in order, what could not be read included. */
export class HeldFrames {
  readonly #maxFrames: number
  readonly #maxBytes: number
  #frames: Taken[] = []
  #bytes = 0

  constructor({ heldFrames, heldBytes }: { readonly heldFrames: number; readonly heldBytes: number }) {
    this.#maxFrames = heldFrames
    this.#maxBytes = heldBytes
  }

  /** False if it is one too many: what is held cannot be used any more. */
  add(taken: Taken): boolean {
    this.#frames.push(taken)
    this.#bytes += taken.bytes
    return this.#frames.length <= this.#maxFrames && this.#bytes <= this.#maxBytes
  }

  get events(): readonly Envelope[] {
    return this.#frames.flatMap(taken => (taken.kind === 'unreadable' ? [] : [taken.envelope]))
  }

  /**
   * Empties it. Returns what stands behind the first so many events: what could not be read and stands among
   * them came again as they did.
   */
  takeAfter(events: number): readonly Taken[] {
    const frames = this.#frames
    this.#frames = []
    this.#bytes = 0
    if (events === 0) return frames
    let left = events
    const last = frames.findIndex(taken => {
      if (taken.kind !== 'unreadable') left -= 1
      return left <= 0
    })
    return frames.slice(last + 1)
  }
}
