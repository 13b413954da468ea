import { type ClientState, emptyClientState, type Frame, reduce } from '@shoji/web-contract'
import { createParser } from 'eventsource-parser'

export interface StreamOptions {
  readonly token?: string
  readonly lastEventId?: string
  readonly query?: Record<string, string>
  readonly timeoutMs?: number
  /** The connection is cut right behind so many frames; what comes later is never looked at. */
  readonly maxFrames?: number
}

/** One viewer's connection, read frame by frame, as a client that keeps its state and its last id. */
export class TestStream {
  readonly frames: Frame[] = []
  state: ClientState
  bytes = 0
  ended = false
  #abort = new AbortController()
  #waiting: (() => void)[] = []
  #timeoutMs: number
  #maxFrames: number

  constructor(
    state: ClientState,
    { timeoutMs = 10_000, maxFrames = Number.POSITIVE_INFINITY }: StreamOptions,
  ) {
    this.state = state
    this.#timeoutMs = timeoutMs
    this.#maxFrames = maxFrames
  }

  static async open(
    url: string,
    options: StreamOptions = {},
    state = emptyClientState(),
  ): Promise<TestStream> {
    const stream = new TestStream(state, options)
    const at = new URL(url)
    for (const [key, value] of Object.entries(options.query ?? {})) at.searchParams.set(key, value)
    const response = await fetch(at, {
      headers: {
        ...(options.token !== undefined && { authorization: `Bearer ${options.token}` }),
        ...(options.lastEventId !== undefined && { 'last-event-id': options.lastEventId }),
      },
      signal: stream.#abort.signal,
    })
    if (response.status !== 200) throw new StreamRefused(response.status, await response.text())
    void stream.#read(response.body!)
    return stream
  }

  get position(): string | null {
    return this.state.position
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    const parser = createParser({
      onEvent: ({ event, id, data }) => {
        if (this.frames.length >= this.#maxFrames) return
        const frame = { event, data: JSON.parse(data), ...(id !== undefined && { id }) } as Frame
        this.frames.push(frame)
        this.state = reduce(this.state, frame)
        if (this.frames.length === this.#maxFrames) this.cut()
        this.#wake()
      },
    })
    const decoder = new TextDecoder()
    try {
      for await (const chunk of body) {
        this.bytes += chunk.length
        parser.feed(decoder.decode(chunk, { stream: true }))
      }
    } catch {
      // Cut by either side: what was read stands.
    }
    this.ended = true
    this.#wake()
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  /** Waits until the frames read so far satisfy a condition; fails with what was read when time runs out. */
  async until(condition: (stream: TestStream) => boolean, what = 'condition'): Promise<this> {
    const deadline = Date.now() + this.#timeoutMs
    while (!condition(this)) {
      const left = deadline - Date.now()
      if (left <= 0 || (this.ended && !condition(this)))
        throw new Error(
          `${what}: not met; last frames ${JSON.stringify(this.frames.slice(-5)).slice(0, 2_000)}`,
        )
      let timer: NodeJS.Timeout | undefined
      await Promise.race([
        new Promise<void>(resolve => this.#waiting.push(resolve)),
        new Promise<void>(resolve => {
          timer = setTimeout(resolve, left)
        }),
      ])
      clearTimeout(timer)
    }
    return this
  }

  async untilFrame(event: Frame['event'], count = 1): Promise<this> {
    return this.until(s => s.frames.filter(f => f.event === event).length >= count, `${count} ${event}`)
  }

  async untilEnvelope(event: string, count = 1): Promise<this> {
    const is = (f: Frame): boolean => f.event === 'envelope' && f.data.event === event
    return this.until(s => s.frames.filter(is).length >= count, `${count} envelope ${event}`)
  }

  async untilLive(): Promise<this> {
    return this.until(s => s.state.live, 'live')
  }

  /** Resolves when the connection has ended, whoever ended it. */
  async untilEnded(): Promise<this> {
    return this.until(s => s.ended, 'the end')
  }

  cut(): void {
    this.#abort.abort()
  }

  [Symbol.dispose](): void {
    this.cut()
  }
}

class StreamRefused extends Error {
  readonly status: number
  readonly body: string
  constructor(status: number, body: string) {
    super(`refused with ${status}: ${body}`)
    this.status = status
    this.body = body
  }
}
