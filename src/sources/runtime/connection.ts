import { randomBytes } from 'node:crypto'
import { type RawData, WebSocket } from 'ws'
import type { Envelope } from '../../journal/entry.ts'
import type { QuarantinedFrame } from '../../journal/journal.ts'
import type { Clock } from '../../lib/clock.ts'
import { endOfAnswer, readRefusal } from './answers.ts'
import { observationUrl } from './dialects.ts'
import { type EndCode, endOfDiagnostic } from './ends.ts'
import { eventHint, type FrameOrigin, readFrame } from './envelope.ts'
import { Farewell, mayBeFarewell } from './farewell.ts'
import { HeldFrames, type RejectedFrame, type Taken } from './held-frames.ts'
import type { RuntimeLimits } from './limits.ts'
import { type Happening, type Opening, STEPS, type State, type Verdict } from './opening.ts'
import { Watch } from './watch.ts'

export interface ConnectionTarget extends FrameOrigin {
  /** Of the Runtime. */
  readonly url: string
  readonly token?: string
}

/** Told in order, synchronously. `accept` and `reject` follow only upon `believed`. */
interface ConnectionObserver {
  /**
   * The fence has passed and the verdict is `fresh` or `proven`. `followed`: frames that are to be handed on
   * came before the fence. Nothing is handed on after it if the observer ends the connection here.
   */
  believed(snapshot: Envelope, verdict: Verdict['verdict'], followed: boolean): void
  /** What came before the fence has been handed on. */
  caughtUp(): void
  accept(envelope: Envelope): void
  reject(frame: RejectedFrame): void
}

export interface Ended {
  readonly code: EndCode
  /** The upgrade was answered with 101. */
  readonly opened: boolean
  /** Milliseconds since the epoch; null where it was never believed. */
  readonly believedAt: number | null
  /** What the judge said; null where it was not asked. */
  readonly verdict: Verdict | null
}

interface Detail {
  /** How it ends, if it does. */
  readonly code?: EndCode
  readonly taken?: Taken
  readonly diagnostic?: string
}

/** Bytes of a frame that are looked at before it is parsed. */
const HEAD_BYTES = 1_024

const fenceMark = (): string => randomBytes(9).toString('base64url')

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
  readonly #opening: Opening
  readonly #observer: ConnectionObserver
  readonly #limits: RuntimeLimits
  readonly #clock: Clock
  readonly #ws: WebSocket
  readonly #watch: Watch
  readonly #farewell: Farewell
  readonly #fence = fenceMark()
  /** Pings whose pong is awaited, by what they carry. */
  readonly #fences = new Map<string, (passed: boolean) => void>()
  #socket: { readonly bytesRead: number } | null = null
  #state: State
  #code: EndCode = 'closed'
  #opened = false
  #believedAt: number | null = null
  #verdict: Verdict | null = null
  #position = 0
  #snapshot: Envelope | null = null
  readonly #held: HeldFrames
  #paused = false

  constructor(
    target: ConnectionTarget,
    opening: Opening,
    observer: ConnectionObserver,
    limits: RuntimeLimits,
    clock: Clock,
  ) {
    this.#target = target
    this.#opening = opening
    this.#state = opening.first
    this.#observer = observer
    this.#limits = limits
    this.#clock = clock
    this.#held = new HeldFrames(limits)
    this.#watch = this.#makeWatch()
    this.#farewell = new Farewell(
      limits.errorHoldMs,
      clock,
      () => this.#paused,
      envelope => this.#tell(() => observer.accept(envelope)),
    )
    const { url, worker, dialect } = target
    this.#ws = new WebSocket(observationUrl(url, worker, dialect, opening.cursor), {
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

  get paused(): boolean {
    return this.#paused
  }

  /**
   * Resolves with true when all that the Runtime had written by now has come, with false if the connection is
   * over or the pong does not come in its time.
   */
  async fence(): Promise<boolean> {
    if (this.#state !== 'believed') return false
    const mark = fenceMark()
    const timer = new AbortController()
    const passed = await new Promise<boolean>(resolve => {
      this.#fences.set(mark, resolve)
      this.#ws.ping(mark)
      void this.#clock.after(this.#limits.fenceMs, timer.signal).then(() => resolve(false))
    })
    this.#fences.delete(mark)
    timer.abort()
    return passed
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
    ws.on('unexpected-response', (_request, response) =>
      readRefusal(response, body =>
        this.#step('refused', { code: endOfAnswer(response.statusCode ?? 0, body) }),
      ),
    )
    ws.on('message', (data, binary) => this.#message(bufferOf(data), binary))
    ws.on('ping', () => this.#watch.heard())
    ws.on('pong', data => {
      this.#watch.heard()
      const mark = data.toString('latin1')
      if (mark === this.#fence) this.#step('pong')
      else this.#fences.get(mark)?.(true)
    })
    ws.on('error', error => this.#failed(error))
    return new Promise(resolve => {
      ws.on('close', () => {
        this.#step('closed', this.#farewell.held ? { code: 'dismissed' } : {})
        ws.removeAllListeners()
        resolve({
          code: this.#code,
          opened: this.#opened,
          believedAt: this.#believedAt,
          verdict: this.#verdict,
        })
      })
    })
  }

  #step(happening: Happening, { code, taken, diagnostic }: Detail = {}): void {
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
    } else if (step.act === 'hold' && taken !== undefined) {
      if (!this.#held.add(taken)) this.#over('held_too_much')
    } else if (step.act === 'judge') {
      if (taken?.kind === 'snapshot') this.#snapshot = taken.envelope
      this.#judge(diagnostic ?? null)
    } else if (step.act === 'release') this.#release()
    else if (step.act === 'hand_on' && taken !== undefined) this.#handOn(taken)
  }

  #over(code: EndCode): void {
    this.#state = 'over'
    this.#code = code
    this.#watch.end()
    this.#farewell.drop()
    this.#held.takeAfter(0)
    this.#snapshot = null
    for (const told of this.#fences.values()) told(false)
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
    if (read.kind === 'diagnostic')
      this.#step('farewell', { code: endOfDiagnostic(read.code), diagnostic: read.code })
    else if (read.kind === 'unreadable') this.#unreadable(read.cause, bytes, body())
    else if (read.event === 'snapshot')
      this.#step('snapshot', { taken: { ...read, kind: 'snapshot', bytes } })
    else if (large) this.#unreadable('too_large', bytes, body())
    else this.#step('event', { taken: { ...read, bytes } })
  }

  #unreadable(cause: QuarantinedFrame['cause'], bytes: number, body: string): void {
    const frame = { time: this.#watch.heardAt, cause, bytes, body }
    this.#step('unreadable', { taken: { kind: 'unreadable', frame, bytes: body.length } })
  }

  #judge(diagnostic: string | null): void {
    const evidence = { snapshot: this.#snapshot, held: this.#held.events, diagnostic }
    this.#tell(() => {
      this.#verdict = this.#opening.judge(evidence)
    })
    if (this.#verdict !== null) this.#step(this.#verdict.verdict)
  }

  #release(): void {
    const verdict = this.#verdict
    const snapshot = this.#snapshot
    this.#snapshot = null
    if (snapshot === null || verdict === null) return
    const fresh = this.#held.takeAfter(verdict.verdict === 'proven' ? verdict.firstNew : 0)
    this.#believedAt = this.#clock.now()
    this.#tell(() => this.#observer.believed(snapshot, verdict.verdict, fresh.length > 0))
    for (const taken of fresh) {
      if (this.#state !== 'believed') return
      this.#handOn(taken)
    }
    if (this.#state === 'believed') this.#tell(() => this.#observer.caughtUp())
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

  #failed(error: Error): void {
    const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
    if (code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') this.#step('too_large')
    else if (code.startsWith('WS_ERR_')) this.#step('garbled')
    // Anything else is followed by `close`.
  }
}
