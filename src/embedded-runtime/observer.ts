import type { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import type { ObservationLog } from './observation-log.ts'
import { textFrame } from './text-frame.ts'

export interface ObserverOptions {
  readonly workerId: string
  readonly log: ObservationLog
  /** Bytes that may wait in this process for a socket before it counts as slow; above a socket's high-water mark. */
  readonly socketBufferBytes: number
  /** The frame said before an overrun socket ends. */
  readonly overrunFrame: string
  readonly onMessage: (observer: Observer, data: RawData, binary: boolean) => void
  readonly onClose: (observer: Observer) => void
}

/** Frames written between two looks at whether the socket still takes them. */
const flushBytes = 65_536

/**
 * One observation socket. It never sends a close frame, whatever happens: the peer sees 1006 (R10). Pings
 * are answered only when the backlog is written, so that the pong is a fence (R12).
 *
 * A socket that takes what it is given is written to at once. One that does not stays at its place in the
 * live queue; if more events than the queue holds passed meanwhile, it is overrun when it reads again (R65).
 */
export class Observer {
  readonly workerId: string
  readonly #ws: WebSocket
  readonly #socket: Duplex
  readonly #options: ObserverOptions
  readonly #pings: Buffer[] = []
  readonly #flushLater = (): void => this.#flush()
  #backlog: string[] = []
  #backlogAt = 0
  #place = 0
  #waiting = false
  /** What waited is being written: the place in the queue moves by that alone. */
  #draining = false
  #stalled = false
  #pongsHeld = false
  #corked = false
  #corkedBytes = 0
  #ended = false

  constructor(ws: WebSocket, socket: Duplex, options: ObserverOptions) {
    this.#ws = ws
    this.#socket = socket
    this.#options = options
    this.workerId = options.workerId
    // The library would answer a client's close frame with one of its own.
    ws.close = () => this.destroy()
    ws.on('ping', data => {
      this.#pings.push(data)
      this.#answerPings()
    })
    ws.on('message', (data, binary) => {
      if (!this.#stalled) options.onMessage(this, data, binary)
    })
    ws.on('error', () => this.destroy())
    ws.on('close', () => {
      this.#ended = true
      options.onClose(this)
    })
    socket.on('drain', () => this.#pump())
  }

  /** Whether the socket stands still: its events wait in the live queue. */
  get waiting(): boolean {
    return this.#waiting
  }

  get open(): boolean {
    return !this.#ended
  }

  get bufferedBytes(): number {
    return this.#socket.writableLength
  }

  /** Writes the snapshot and the backlog; live events come after them. */
  begin(frames: readonly string[]): void {
    this.#backlog = [...frames]
    this.#place = this.#options.log.published
    this.#waiting = true
    this.#pump()
  }

  /** A live event of this worker, which already stands in the live queue. */
  live(frame: string): void {
    if (this.#waiting || this.#ended) return
    this.#write(frame)
  }

  /** A frame outside of the stream, such as an answer to a protocol method. */
  say(frame: string): void {
    if (!this.#ended && !this.#stalled) this.#write(frame)
  }

  sayBinary(bytes: Uint8Array): void {
    if (!this.#ended) this.#ws.send(bytes, { binary: true })
  }

  /** Says a last frame, if any, and ends the connection without a close frame. */
  end(frame?: string): void {
    if (this.#ended) return
    if (frame !== undefined) this.#write(frame)
    this.#flush()
    this.#ended = true
    this.#socket.end()
  }

  /** Ends the connection at once; what the system has not taken yet is lost. */
  destroy(): void {
    this.#ended = true
    this.#ws.terminate()
  }

  /** A stalled socket stays open and silent: no events, no pongs, and what it says is not heard. */
  stall(): void {
    if (!this.#waiting) this.#place = this.#options.log.published
    this.#stalled = true
    this.#waiting = true
  }

  resume(): void {
    this.#stalled = false
    this.#pump()
  }

  /** Keeps pongs back, as a Runtime does that is slow to write its backlog. */
  holdPongs(held: boolean): void {
    this.#pongsHeld = held
    this.#answerPings()
  }

  #answerPings(): void {
    if (this.#pongsHeld || this.#stalled || this.#backlogAt < this.#backlog.length || this.#ended) return
    if (this.#waiting && this.#socket.writableLength > 0) return
    for (const data of this.#pings.splice(0)) this.#ws.pong(data)
  }

  #pump(): void {
    if (this.#ended || this.#stalled || !this.#waiting) return
    this.#waiting = false
    this.#draining = true
    this.#writeBacklog()
    this.#writeQueued()
    this.#draining = false
  }

  #writeBacklog(): void {
    while (this.#backlogAt < this.#backlog.length && !this.#waiting) {
      this.#write(this.#backlog[this.#backlogAt] ?? '')
      this.#backlogAt += 1
    }
    if (this.#backlogAt >= this.#backlog.length) {
      this.#backlog = []
      this.#backlogAt = 0
    }
  }

  #writeQueued(): void {
    if (this.#waiting) return
    this.#answerPings()
    const { log, workerId, overrunFrame } = this.#options
    while (this.#place < log.published && !this.#waiting) {
      if (log.published - this.#place > log.queueEvents) {
        this.end(overrunFrame)
        return
      }
      const frame = log.queuedFor(workerId, this.#place)
      this.#place += 1
      if (frame !== undefined) this.#write(frame)
    }
  }

  #write(frame: string): void {
    if (!this.#corked) {
      this.#corked = true
      this.#socket.cork()
      process.nextTick(this.#flushLater)
    }
    const bytes = textFrame(frame)
    this.#socket.write(bytes)
    this.#corkedBytes += bytes.length
    if (this.#corkedBytes >= flushBytes) this.#flush()
  }

  #flush(): void {
    if (!this.#corked) return
    this.#corked = false
    this.#corkedBytes = 0
    this.#socket.uncork()
    if (this.#socket.writableLength <= this.#options.socketBufferBytes || this.#waiting) return
    this.#waiting = true
    if (!this.#draining) this.#place = this.#options.log.published
  }
}
