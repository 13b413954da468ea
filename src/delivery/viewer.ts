import type { ServerResponse } from 'node:http'
import type { ByeReason, Frame } from '@shoji/web-contract'
import type { Seq, StreamId } from '../journal/entry.ts'
import { encode, encodeFrame } from './frames.ts'
import type { Group, Member } from './group.ts'
import type { Audience } from './selection.ts'

export type ViewerState = 'starting' | 'catching_up' | 'live'

export interface ViewerLimits {
  /** Bytes of the group's buffers kept for a viewer whose socket is full. */
  readonly bufferedBytes: number
}

/** Small frames beside the journal's order (status, beats) that wait for a place between two frames. */
const ASIDE_MAX = 100
const END_GRACE_MS = 1_000

/**
 * One connection to a browser. On the first `false` from `write()` nothing more is written until `drain`,
 * beats included: a slow reader costs its position and at most `bufferedBytes`.
 */
export class Viewer implements Member {
  readonly audience: Audience
  readonly since: number
  readonly closeAt: number
  state: ViewerState = 'starting'
  group: Group | null = null
  /** Everything up to here has been written to the socket. */
  position: Seq
  views = ''
  closed = false
  /** It has resumed, and is not at the head yet. */
  owesCaughtUp = false
  /** Streams that it was told are not kept back to its position, and whether their next list tells it. */
  readonly expired = new Map<StreamId, { readonly lastDeleted: Seq; readonly replaced: boolean }>()
  readonly #res: ServerResponse
  readonly #limits: ViewerLimits
  readonly #onClose: () => void
  readonly #onBehind: (viewer: Viewer) => void
  #blocked = false
  #inBurst = false
  #queue: { bytes: Buffer; position: Seq }[] = []
  #queuedBytes = 0
  #aside: (() => string)[] = []
  #drained: (() => void)[] = []
  #sent = -1
  #sentSince: number

  constructor(
    res: ServerResponse,
    at: {
      audience: Audience
      position: Seq
      since: number
      closeAt: number
      limits: ViewerLimits
      onClose: () => void
      onBehind: (viewer: Viewer) => void
    },
  ) {
    this.#res = res
    this.audience = at.audience
    this.position = at.position
    this.since = at.since
    this.closeAt = at.closeAt
    this.#sentSince = at.since
    this.#limits = at.limits
    this.#onClose = at.onClose
    this.#onBehind = at.onBehind
    res.on('drain', () => this.#flush())
    res.on('error', () => {})
    res.on('close', () => this.#gone())
  }

  get blocked(): boolean {
    return this.#blocked
  }

  deliver(bytes: Buffer, position: Seq): void {
    if (!this.#blocked) {
      this.#write(bytes)
      this.position = position
      return
    }
    this.#queue.push({ bytes, position })
    this.#queuedBytes += bytes.length
    if (this.#queuedBytes > this.#limits.bufferedBytes) this.fallBehind()
  }

  /** Drops what waited and keeps the position alone: the viewer reads pages at its own pace. */
  fallBehind(): void {
    this.#queue = []
    this.#queuedBytes = 0
    this.leave()
    this.#onBehind(this)
  }

  advance(position: Seq): void {
    const last = this.#queue.at(-1)
    if (last === undefined) this.position = position
    else last.position = position
  }

  /** Writes frames of a catch-up in one piece. Resolves when more may be written, or the viewer is gone. */
  async send(frames: readonly Frame[], position: Seq): Promise<void> {
    if (this.closed) return
    if (frames.length > 0) this.#write(Buffer.from(frames.map(encode).join('')))
    this.position = position
    await this.writable()
  }

  /** Between these no beat and no status is written: a burst is whole or repeated. */
  burst(on: boolean): void {
    this.#inBurst = on
    if (!on) this.#sendAside()
  }

  async writable(): Promise<void> {
    while (this.#blocked && !this.closed) await new Promise<void>(resolve => this.#drained.push(resolve))
  }

  /** A frame beside the journal's order, written at the next place where one may stand, or not at all. */
  aside(make: () => string): void {
    if (this.#aside.length < ASIDE_MAX) this.#aside.push(make)
    this.#sendAside()
  }

  /** A beat is skipped while the socket is full: the reader has bytes to read. */
  beat(bytes: () => string): void {
    if (this.#blocked || this.closed) return
    if (this.#inBurst) this.#aside.push(bytes)
    else this.#write(Buffer.from(bytes()))
  }

  leave(): void {
    this.group?.members.delete(this)
    this.group = null
    this.state = 'catching_up'
  }

  /** True when bytes lay unsent and none moved since `stalledMs` ago. A beat in the queue is no progress. */
  stalled(now: number, stalledMs: number): boolean {
    const { socket } = this.#res
    if (socket === null) return false
    const sent = socket.bytesWritten - socket.writableLength
    if (sent !== this.#sent || socket.writableLength === 0) {
      this.#sent = sent
      this.#sentSince = now
      return false
    }
    return now - this.#sentSince >= stalledMs
  }

  /** Says why in the stream, and ends it. */
  bye(reason: ByeReason, retryMs: number): void {
    if (this.closed) return
    this.leave()
    const frame = `retry: ${retryMs}\n${encodeFrame('bye', { reason, retry_ms: retryMs })}`
    if (this.#blocked) this.#res.end()
    else this.#res.end(frame)
    const timer = setTimeout(() => this.#res.destroy(), END_GRACE_MS)
    timer.unref()
    this.#res.once('close', () => clearTimeout(timer))
    this.closed = true
    this.#release()
  }

  cut(): void {
    this.#res.destroy()
    this.#gone()
  }

  #write(bytes: Buffer): void {
    if (this.closed) return
    if (!this.#res.write(bytes)) this.#blocked = true
  }

  #flush(): void {
    this.#blocked = false
    while (!this.#blocked) {
      const next = this.#queue.shift()
      if (next === undefined) break
      this.#queuedBytes -= next.bytes.length
      this.#write(next.bytes)
      this.position = next.position
    }
    this.#sendAside()
    if (!this.#blocked) this.#release()
  }

  #sendAside(): void {
    while (!this.#blocked && !this.#inBurst && this.#queue.length === 0) {
      const make = this.#aside.shift()
      if (make === undefined) return
      this.#write(Buffer.from(make()))
    }
  }

  #release(): void {
    const waiting = this.#drained
    this.#drained = []
    for (const resolve of waiting) resolve()
  }

  #gone(): void {
    this.closed = true
    this.leave()
    this.#queue = []
    this.#aside = []
    this.#release()
    this.#onClose()
  }
}
