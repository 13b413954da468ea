import { type ClientState, emptyClientState, type Frame, frameSchemas, reduce } from '@shoji/web-contract'
import { EventSource } from 'eventsource'
import { TOKENS, type User } from './shoji.ts'

/** A page that does no more than a plain `EventSource` does: it keeps the state, the browser the position. */
export class Page {
  readonly frames: Frame[] = []
  state: ClientState = emptyClientState()
  /** Errors that the source told of; it goes on by itself. */
  errors = 0
  lastEventId = ''
  readonly #source: EventSource
  #waiting: (() => void)[] = []

  constructor(url: string, user: User = 'admin') {
    this.#source = new EventSource(url, {
      fetch: (input, init) =>
        fetch(input, { ...init, headers: { ...init.headers, authorization: `Bearer ${TOKENS[user]}` } }),
    })
    for (const name of Object.keys(frameSchemas) as Frame['event'][])
      this.#source.addEventListener(name, event => {
        const { data, lastEventId } = event as MessageEvent<string>
        // The package gives a frame's own id, '' where it has none; a browser repeats the one before.
        const id = lastEventId !== '' && lastEventId !== this.lastEventId ? { id: lastEventId } : {}
        this.lastEventId = lastEventId || this.lastEventId
        const frame = { event: name, data: JSON.parse(data), ...id } as Frame
        this.frames.push(frame)
        this.state = reduce(this.state, frame)
        this.#wake()
      })
    this.#source.addEventListener('error', () => {
      this.errors += 1
      this.#wake()
    })
  }

  /** False when the browser would not try again. */
  get alive(): boolean {
    return this.#source.readyState !== EventSource.CLOSED
  }

  async until(condition: (page: Page) => boolean, what: string, timeoutMs = 15_000): Promise<this> {
    const timer = setTimeout(() => this.#wake(), timeoutMs)
    const deadline = Date.now() + timeoutMs - 5
    try {
      while (!condition(this)) {
        if (Date.now() >= deadline)
          throw new Error(
            `${what}: not met; last frames ${JSON.stringify(this.frames.slice(-4)).slice(0, 900)}`,
          )
        await new Promise<void>(resolve => this.#waiting.push(resolve))
      }
      return this
    } finally {
      clearTimeout(timer)
    }
  }

  close(): void {
    this.#source.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
