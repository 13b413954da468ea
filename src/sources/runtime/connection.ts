import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type RawData, WebSocket } from 'ws'
import type { Envelope } from '../../journal/entry.ts'
import type { QuarantinedFrame } from '../../journal/journal.ts'
import type { Clock } from '../../lib/clock.ts'
import { endOfAnswer } from './answers.ts'
import { type EndCode, endOfDiagnostic } from './ends.ts'
import { eventHint, type FrameOrigin, readFrame } from './envelope.ts'
import { Farewell, mayBeFarewell } from './farewell.ts'
import type { RuntimeLimits } from './limits.ts'
import { type Happening, judgeOpening, STEPS, type State, type Verdict } from './opening.ts'
import { Watch } from './watch.ts'

export type RejectedFrame = Omit<QuarantinedFrame, 'stream'>

interface ConnectionTarget extends FrameOrigin {
  /** `ws:` or `wss:`. */
  readonly url: string
  readonly token?: string
}

/** Told in order, synchronously. `accept` and `reject` follow only upon `believed`. */
interface ConnectionObserver {
  /** The fence has passed. Nothing is handed on after it if the observer ends the connection here. */
  believed(snapshot: Envelope, verdict: Verdict): void
  accept(envelope: Envelope): void
  reject(frame: RejectedFrame): void
}

export interface Ended {
  readonly code: EndCode
  /** The upgrade was answered with 101. */
  readonly opened: boolean
  /** Milliseconds since the epoch; null where the fence was never passed. */
  readonly believedAt: number | null
}

type Taken =
  | {
      readonly kind: 'event' | 'snapshot'
      readonly event: string
      readonly envelope: Envelope
      readonly bytes: number
    }
  | { readonly kind: 'unreadable'; readonly frame: RejectedFrame; readonly bytes: number }

/** Bytes of a frame that are looked at before it is parsed. */
const HEAD_BYTES = 1_024
const REFUSAL_BYTES = 8 * 1_024

const bufferOf = (data: RawData): Buffer => {
  if (Buffer.isBuffer(data)) return data
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data)
}

/** A large frame is parsed only where it may be a snapshot; one that does not tell is taken for one. */
const hint = (data: Buffer): string => eventHint(data.subarray(0, HEAD_BYTES).toString('utf8')) ?? 'snapshot'

/**
 * One observation socket from its upgrade to its end, stepped through the table of `opening.ts`. It reads
 * only; the one thing it ever sends is a ping, since anything else makes the Runtime end it.
 */
export class Connection {
  /** Resolves, never rejects, when the socket is closed and no timer or listener of it is left. */
  readonly ended: Promise<Ended>
  readonly #target: ConnectionTarget
  readonly #observer: ConnectionObserver
  readonly #limits: RuntimeLimits
  readonly #clock: Clock
  readonly #ws: WebSocket
  readonly #watch: Watch
  readonly #farewell: Farewell
  readonly #fence = randomBytes(8)
  #socket: { readonly bytesRead: number } | null = null
  #state: State = 'opening'
  #code: EndCode = 'closed'
  #opened = false
  #believedAt: number | null = null
  #position = 0
  #snapshot: Envelope | null = null
  #held: Taken[] = []
  #heldBytes = 0
  #paused = false

  constructor(target: ConnectionTarget, observer: ConnectionObserver, limits: RuntimeLimits, clock: Clock) {
    this.#target = target
    this.#observer = observer
    this.#limits = limits
    this.#clock = clock
    this.#watch = this.#makeWatch()
    this.#farewell = new Farewell(
      limits.errorHoldMs,
      clock,
      () => this.#paused,
      envelope => this.#tell(() => observer.accept(envelope)),
    )
    this.#ws = new WebSocket(target.url, {
      headers: target.token === undefined ? {} : { authorization: `Bearer ${target.token}` },
      perMessageDeflate: false,
      maxPayload: limits.hardFrameBytes,
      skipUTF8Validation: false,
      followRedirects: false,
    })
    this.ended = this.#listen(this.#ws)
    this.#watch.begin()
  }

  /** Bytes that came on the socket, whole frames or not. */
  get bytesRead(): number {
    return this.#socket?.bytesRead ?? 0
  }

  /** Stops reading, as soon as there is a socket to stop. The time it stands still counts as nobody's silence. */
  pause(): void {
    this.#paused = true
    if (this.#opened) this.#ws.pause()
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    if (this.#state === 'over') return
    this.#watch.begin()
    if (this.#opened) this.#ws.resume()
  }

  /** Ends it from our side. What was believed and is still held is handed on first. Later calls change nothing. */
  end(code: EndCode): void {
    if (this.#state === 'over') return
    this.#farewell.release()
    this.#over(code)
  }

  #makeWatch(): Watch {
    const connection = this
    return new Watch(
      {
        get state() {
          return connection.#state
        },
        get paused() {
          return connection.#paused
        },
        get bytesRead() {
          return connection.bytesRead
        },
        late: () => this.#step('late'),
        ping: () => this.#ws.ping(),
      },
      this.#limits,
      this.#clock,
    )
  }

  #listen(ws: WebSocket): Promise<Ended> {
    ws.on('upgrade', response => {
      this.#socket = response.socket
    })
    ws.on('open', () => {
      this.#opened = true
      if (this.#paused) ws.pause()
      this.#step('opened')
    })
    ws.on('unexpected-response', (_request, response) => this.#refused(response))
    ws.on('message', (data, binary) => this.#message(bufferOf(data), binary))
    ws.on('ping', () => this.#watch.heard())
    ws.on('pong', data => {
      this.#watch.heard()
      if (data.equals(this.#fence)) this.#step('pong')
    })
    ws.on('error', error => this.#failed(error))
    return new Promise(resolve => {
      ws.on('close', () => {
        this.#step('closed', this.#farewell.held ? 'dismissed' : undefined)
        ws.removeAllListeners()
        resolve({ code: this.#code, opened: this.#opened, believedAt: this.#believedAt })
      })
    })
  }

  #step(happening: Happening, code?: EndCode, taken?: Taken): void {
    const step = STEPS[this.#state][happening]
    if (step.act === 'end') {
      this.#over(code ?? step.end ?? 'closed')
      return
    }
    const changed = step.to !== this.#state
    this.#state = step.to
    if (changed) this.#watch.begin()
    if (step.act === 'ping' && taken?.kind === 'snapshot') {
      this.#snapshot = taken.envelope
      this.#ws.ping(this.#fence)
    } else if (step.act === 'hold' && taken !== undefined) this.#hold(taken)
    else if (step.act === 'release') this.#release()
    else if (step.act === 'hand_on' && taken !== undefined) this.#handOn(taken)
  }

  #over(code: EndCode): void {
    this.#state = 'over'
    this.#code = code
    this.#watch.end()
    this.#farewell.drop()
    this.#held = []
    this.#snapshot = null
    this.#ws.terminate()
  }

  #message(data: Buffer, binary: boolean): void {
    if (this.#state === 'over') return
    this.#watch.heard()
    this.#position += 1
    const bytes = data.length
    if (binary) {
      this.#unreadable('binary', bytes, data.subarray(0, this.#limits.quarantineChars / 2).toString('base64'))
      return
    }
    const large = bytes > this.#limits.frameBytes
    const body = () => data.subarray(0, this.#limits.quarantineChars).toString('utf8')
    if (large && hint(data) !== 'snapshot') {
      this.#unreadable('too_large', bytes, body())
      return
    }
    const read = readFrame(data.toString('utf8'), this.#target, this.#position, this.#watch.heardAt)
    if (read.kind === 'diagnostic') this.#step('farewell', endOfDiagnostic(read.code))
    else if (read.kind === 'unreadable') this.#unreadable(read.cause, bytes, body())
    else if (read.event === 'snapshot')
      this.#step('snapshot', undefined, { ...read, kind: 'snapshot', bytes })
    else if (large) this.#unreadable('too_large', bytes, body())
    else this.#step('event', undefined, { ...read, bytes })
  }

  #unreadable(cause: QuarantinedFrame['cause'], bytes: number, body: string): void {
    const frame = { time: this.#watch.heardAt, cause, bytes, body }
    this.#step('unreadable', undefined, { kind: 'unreadable', frame, bytes: body.length })
  }

  #hold(taken: Taken): void {
    this.#held.push(taken)
    this.#heldBytes += taken.bytes
    const { heldFrames, heldBytes } = this.#limits
    if (this.#held.length > heldFrames || this.#heldBytes > heldBytes) this.#over('held_too_much')
  }

  #release(): void {
    const snapshot = this.#snapshot
    const held = this.#held
    this.#snapshot = null
    this.#held = []
    if (snapshot === null) return
    this.#believedAt = this.#clock.now()
    this.#tell(() => this.#observer.believed(snapshot, judgeOpening(snapshot.parsed)))
    for (const taken of held) {
      if (this.#state !== 'believed') return
      this.#handOn(taken)
    }
  }

  #handOn(taken: Taken): void {
    this.#farewell.release()
    if (this.#state !== 'believed') return
    if (taken.kind === 'unreadable') this.#tell(() => this.#observer.reject(taken.frame))
    else if (this.#target.dialect === 'protocol-ws' && mayBeFarewell(taken.event, taken.envelope)) {
      this.#farewell.hold(taken.envelope)
    } else this.#tell(() => this.#observer.accept(taken.envelope))
  }

  #tell(call: () => void): void {
    try {
      call()
    } catch {
      this.#over('not_taken')
    }
  }

  #refused(response: IncomingMessage): void {
    const chunks: Buffer[] = []
    let bytes = 0
    const judge = () => {
      response.removeAllListeners()
      response.on('error', () => undefined)
      this.#step('refused', endOfAnswer(response.statusCode ?? 0, Buffer.concat(chunks).toString('utf8')))
    }
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > REFUSAL_BYTES) judge()
    })
    // One that does not end runs into the time limit of the opening.
    response.on('end', judge)
    response.on('close', judge)
    response.on('error', judge)
  }

  #failed(error: Error): void {
    const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
    if (code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') this.#step('too_large')
    else if (code.startsWith('WS_ERR_')) this.#step('garbled')
    // Anything else is followed by `close`.
  }
}
