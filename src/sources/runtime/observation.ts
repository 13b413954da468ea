import type { Envelope } from '../../journal/entry.ts'
import type { Dialect } from '../source.ts'
import { Connection, type Ended } from './connection.ts'
import type { EndCode } from './ends.ts'
import type { LinkDeps } from './link-deps.ts'
import { AFRESH, type Opening, type Verdict } from './opening.ts'
import type { FenceAct } from './overlap.ts'
import type { ResumeVerdict, Resumption } from './resumption.ts'
import type { Resync } from './resync.ts'
import type { WorkerStream } from './worker-stream.ts'

interface Terms {
  readonly worker: string
  readonly dialect: Dialect
  /** It lasts while the worker runs; otherwise its snapshot is all that is asked for. */
  readonly lasting: boolean
  /** Null to begin a new list. */
  readonly resumption: Resumption | null
  readonly stream: WorkerStream
  readonly resync: Resync
  /** The connection is open: the next worker may connect. */
  readonly believed: () => void
}

/** One connection from its upgrade to its end, and what its verdict means for the worker's stream. */
export class Observation {
  /** Resolves, never rejects, when nothing of it is open and the stream has been told. */
  readonly ended: Promise<Ended>
  readonly #terms: Terms
  readonly #deps: LinkDeps
  readonly #connection: Connection
  readonly #flow: { readonly worker: string; pause(): void; resume(): void }
  /** What the snapshot of a proven resume calls for. */
  #act: FenceAct = 'nothing'
  /** Aborted by the first thing that comes after the fence. */
  #silence: AbortController | null = null

  constructor(terms: Terms, deps: LinkDeps) {
    this.#terms = terms
    this.#deps = deps
    const { worker, dialect } = terms
    const { url, token, limits, clock, pressure, newConnectionId } = deps
    const connection: Connection = new Connection(
      { url, ...(token === undefined ? {} : { token }), dialect, worker, connection: newConnectionId() },
      this.#opening(),
      {
        believed: (snapshot, verdict, followed) => this.#believed(snapshot, verdict, followed),
        caughtUp: () => this.#caughtUp(),
        accept: envelope => {
          this.#came()
          terms.stream.accept(envelope)
          pressure.handed(this.#flow, envelope.payload.length)
        },
        reject: frame => {
          this.#came()
          terms.stream.reject(frame)
          deps.events.rejected({ ...this.#at, cause: frame.cause, bytes: frame.bytes })
          pressure.handed(this.#flow, frame.body.length)
        },
      },
      limits,
      clock,
    )
    this.#connection = connection
    this.#flow = { worker, pause: () => connection.pause(), resume: () => connection.resume() }
    pressure.add(this.#flow)
    this.ended = this.#settled()
  }

  end(code: EndCode): void {
    this.#connection.end(code)
  }

  get #at() {
    return { runtime: this.#deps.runtime, worker: this.#terms.worker }
  }

  #opening(): Opening {
    const { resumption } = this.#terms
    if (resumption === null) return AFRESH
    return { ...resumption, judge: evidence => this.#counted(resumption.judge(evidence)) }
  }

  #counted(verdict: ResumeVerdict): ResumeVerdict {
    const told = verdict.verdict === 'not_proven' ? verdict.reason : verdict.verdict
    this.#deps.events.judged({ ...this.#at, verdict: told })
    return verdict
  }

  #believed(snapshot: Envelope, verdict: Verdict['verdict'], followed: boolean): void {
    const { dialect, lasting, resumption, stream, worker } = this.#terms
    const { events, pressure, status } = this.#deps
    this.#terms.believed()
    events.connected(this.#at)
    if (verdict === 'proven') {
      stream.goOn()
      this.#act = resumption?.atFence(followed) ?? 'nothing'
    } else {
      stream.begin(snapshot, dialect, followed)
      pressure.handed(this.#flow, snapshot.payload.length)
    }
    if (lasting) status.set(worker, 'live')
  }

  #caughtUp(): void {
    const { dialect, lasting, stream, resync } = this.#terms
    if (!lasting) {
      // There is no later time to heal in.
      this.end(this.#act === 'nothing' ? 'looked' : 'state_mismatch')
      return
    }
    if (this.#act === 'resync_due') stream.resyncDue()
    if (this.#act === 'wait_for_mismatch') void this.#awaitEvents()
    resync.stands({ dialect, connection: this.#connection })
  }

  /** The list is replaced if nothing comes that could explain why the snapshot says something else. */
  async #awaitEvents(): Promise<void> {
    const silence = new AbortController()
    this.#silence = silence
    const { clock, limits } = this.#deps
    while (!silence.signal.aborted) {
      await clock.after(limits.mismatchMs, silence.signal)
      if (silence.signal.aborted) return
      // What came in time may still lie in the socket, if this process slept or reading stands still.
      const passed = await this.#connection.fence()
      if (passed && !silence.signal.aborted) this.end('state_mismatch')
    }
  }

  #came(): void {
    if (this.#silence === null) return
    this.#silence.abort()
    this.#silence = null
  }

  async #settled(): Promise<Ended> {
    const { stream, resync, dialect } = this.#terms
    const ended = await this.#connection.ended
    this.#deps.pressure.delete(this.#flow)
    this.#came()
    await resync.falls()
    stream.ended(ended, dialect)
    return ended
  }
}
