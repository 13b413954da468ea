import type { Clock } from '../../lib/clock.ts'
import type { Slots } from '../../lib/slots.ts'
import { Wake } from '../../lib/wake.ts'
import type { ListedWorker, SourceEvents, SourceSink } from '../source.ts'
import { backoffMs } from './backoff.ts'
import { Connection, type Ended } from './connection.ts'
import { type Dialects, observationUrl } from './dialects.ts'
import { type Retry, ruleOf } from './ends.ts'
import type { Dialect } from './envelope.ts'
import type { RuntimeLimits } from './limits.ts'
import { isAlive } from './lives.ts'
import type { Pressure } from './pressure.ts'
import type { StatusBoard } from './status-board.ts'
import { WorkerStream } from './worker-stream.ts'

/** What the links of one Runtime share. */
export interface LinkDeps {
  readonly runtime: string
  readonly url: string
  readonly token?: string
  readonly sink: SourceSink
  readonly events: SourceEvents
  readonly limits: RuntimeLimits
  readonly clock: Clock
  readonly random: () => number
  readonly newConnectionId: () => string
  readonly dialects: Dialects
  readonly slots: Slots
  readonly pressure: Pressure
  readonly status: StatusBoard
}

/** `stay`: observe it. `look`: fetch the snapshot of a worker that does not run. `rest`: nothing to do. */
type Need = 'stay' | 'look' | 'rest'

interface Attempt {
  readonly need: Need
  /** The listing under which it began. */
  readonly listing: string
  /** Lets the next worker connect. */
  readonly leave: () => void
}

/** What of a listing is news. Later Runtimes list the activity, which changes with every turn and is none. */
const listingOf = (listed: ListedWorker | null): string =>
  listed === null ? '' : JSON.stringify([isAlive(listed.status) ? 'alive' : listed.status, listed.profile])

const NOTHING_OPENED: Omit<Ended, 'code'> = { opened: false, believedAt: null }

/**
 * Keeps one worker connected while it is listed as running, and looks once at one that is not when asked to.
 * Every connection that is believed begins a new incarnation with its snapshot.
 */
export class WorkerLink {
  readonly worker: string
  readonly #deps: LinkDeps
  readonly #wake: Wake
  readonly #stream: WorkerStream
  #listed: ListedWorker | null
  #admitted: boolean
  #wanted = false
  #done = false
  /** The listing under which nothing more is to be had of the worker. */
  #exhausted: string | null = null
  #staying: Connection | null = null
  #lingering: AbortController | null = null

  /** `admitted`: it may have a lasting connection. */
  constructor(listed: ListedWorker, admitted: boolean, deps: LinkDeps) {
    this.worker = listed.worker
    this.#admitted = admitted
    this.#listed = listed
    this.#deps = deps
    this.#wake = new Wake(deps.clock)
    this.#stream = new WorkerStream(deps.sink, deps.runtime, listed.worker)
  }

  /** The worker left its Runtime and all is said of it: the link has ended and takes no more news. */
  get done(): boolean {
    return this.#done
  }

  /** What the newest listing says, null if the worker is not in it. */
  update(listed: ListedWorker | null, admitted: boolean): void {
    const before = this.#listed
    const news = listingOf(listed) !== listingOf(before)
    this.#listed = listed
    if (!news && admitted === this.#admitted) return
    this.#admitted = admitted
    if (listed !== null && before !== null && listed.profile !== before.profile)
      this.#staying?.end('profile_changed')
    this.#linger()
    this.#wake.call()
  }

  want(): void {
    this.#wanted = true
    this.#wake.call()
  }

  /** The Runtime is there again: whatever is waited for, now is the time. */
  nudge(): void {
    this.#wake.call()
  }

  /** Ends with the signal, or when the worker has left its Runtime. */
  async run(signal: AbortSignal): Promise<void> {
    let failures = 0
    while (!signal.aborted) {
      this.#wake.clear()
      const need = this.#need()
      if (need === 'rest') {
        failures = 0
        if (!(await this.#rest(signal))) break
        continue
      }
      const ended = await this.#attempt(need, signal)
      if (ended === null || signal.aborted) continue
      const { clock, limits } = this.#deps
      if (ended.believedAt !== null && clock.now() - ended.believedAt > limits.steadyMs) failures = 0
      // News in the meantime go before the wait.
      if (this.#need() === need) await this.#wait(ruleOf(ended.code).retry, failures, signal)
      failures += 1
    }
    this.#done = true
  }

  #need(): Need {
    const listed = this.#listed
    if (listed === null || listingOf(listed) === this.#exhausted) return 'rest'
    if (isAlive(listed.status)) return this.#admitted ? 'stay' : 'rest'
    return this.#wanted ? 'look' : 'rest'
  }

  /** Waits for news. False: there will be none. */
  async #rest(signal: AbortSignal): Promise<boolean> {
    const { status, limits } = this.#deps
    const listed = this.#listed
    if (listed === null) {
      this.#stop()
      status.set(this.worker, 'gone', 'upstream_worker_gone')
      return false
    }
    await this.#stream.profileIs(listed.profile).catch(() => undefined)
    if (!isAlive(listed.status)) this.#tellGone()
    else if (this.#exhausted === null) status.set(this.worker, 'degraded', 'connection_limit')
    else {
      // Listed as running, and yet it gave a stand-in. One of the two is late, so it is looked at again.
      this.#tellGone()
      await this.#wake.sleep(limits.slowRetry.baseMs, signal)
      this.#exhausted = null
      return true
    }
    await this.#wake.sleep(Number.POSITIVE_INFINITY, signal)
    return true
  }

  /** One try, with the next dialect where a route is missing. Null: it was overtaken by news. */
  async #attempt(need: Need, signal: AbortSignal): Promise<Ended | null> {
    const { slots, pressure, dialects } = this.#deps
    const leave = await slots.take(signal)
    try {
      await pressure.clear()
      const listed = this.#listed
      if (signal.aborted || listed === null || this.#need() !== need) return null
      const attempt = { need, listing: listingOf(listed), leave }
      let ended: Ended = { code: 'not_taken', ...NOTHING_OPENED }
      if (await this.#open(listed.profile)) {
        for (const dialect of dialects.candidates()) {
          ended = await this.#observe(dialect, attempt, signal)
          if (ended.code !== 'route_missing') break
        }
      }
      const { runtime, events } = this.#deps
      events.disconnected({ runtime, worker: this.worker, code: ended.code, opened: ended.opened })
      this.#settle(ended, attempt)
      return ended
    } finally {
      leave()
    }
  }

  #open(profile: string | null): Promise<boolean> {
    return this.#stream.open(profile).then(
      () => true,
      () => false,
    )
  }

  async #observe(dialect: Dialect, attempt: Attempt, signal: AbortSignal): Promise<Ended> {
    if (signal.aborted) return { code: 'aborted', ...NOTHING_OPENED }
    const { runtime, url, token, events, limits, clock, pressure, newConnectionId } = this.#deps
    const at = { runtime, worker: this.worker }
    const connection: Connection = new Connection(
      {
        url: observationUrl(url, this.worker, dialect),
        ...(token === undefined ? {} : { token }),
        dialect,
        worker: this.worker,
        connection: newConnectionId(),
      },
      {
        believed: (snapshot, verdict) => {
          this.#deps.dialects.found(dialect)
          attempt.leave()
          if (verdict === 'stand_in') {
            connection.end('stand_in')
            return
          }
          events.connected(at)
          this.#stream.begin(snapshot)
          pressure.handed(flow, snapshot.payload.length)
          if (attempt.need === 'stay') this.#deps.status.set(this.worker, 'live')
          // What was held behind the snapshot is still handed on before.
          else queueMicrotask(() => connection.end('looked'))
        },
        accept: envelope => {
          this.#stream.accept(envelope)
          pressure.handed(flow, envelope.payload.length)
        },
        reject: frame => {
          this.#stream.reject(frame)
          events.rejected({ ...at, cause: frame.cause, bytes: frame.bytes })
          pressure.handed(flow, frame.body.length)
        },
      },
      limits,
      clock,
    )
    const flow = { worker: this.worker, pause: () => connection.pause(), resume: () => connection.resume() }
    const abort = () => connection.end('aborted')
    pressure.add(flow)
    signal.addEventListener('abort', abort, { once: true })
    if (attempt.need === 'stay') this.#staying = connection
    this.#linger()
    const ended = await connection.ended
    this.#staying = null
    this.#lingering?.abort()
    signal.removeEventListener('abort', abort)
    pressure.delete(flow)
    return ended
  }

  /** What an end means for the stream, for viewers, and for the next try. */
  #settle({ code }: Ended, { listing }: Attempt): void {
    const { dialects, status } = this.#deps
    const rule = ruleOf(code)
    this.#stream.replacedFor(rule.reset)
    if (code === 'no_snapshot' || code === 'route_missing') dialects.forget()
    if (rule.upstream === 'gone') this.#stop()
    if (rule.retry === 'listing') {
      const now = this.#listed
      this.#exhausted = code === 'left' ? listingOf(now) : listing
    } else if (rule.retry !== 'never') status.set(this.worker, rule.upstream, rule.code)
  }

  /** A worker that is no longer listed as running keeps its connection for a while: its last words may be under way. */
  #linger(): void {
    const connection = this.#staying
    if (connection === null || this.#need() === 'stay') {
      this.#lingering?.abort()
      this.#lingering = null
      return
    }
    if (this.#lingering !== null && !this.#lingering.signal.aborted) return
    const lingering = new AbortController()
    this.#lingering = lingering
    const { clock, limits } = this.#deps
    void clock.after(limits.lingerMs, lingering.signal).then(() => {
      if (!lingering.signal.aborted) connection.end('left')
    })
  }

  #stop(): void {
    try {
      this.#stream.stop(this.#deps.clock.now())
    } catch {
      // The journal is closing; the next start finds the worker as it is.
    }
  }

  #tellGone(): void {
    const missing = this.#exhausted !== null && !this.#stream.known
    this.#deps.status.set(this.worker, 'gone', missing ? 'history_unavailable' : undefined)
  }

  async #wait(retry: Retry, failures: number, signal: AbortSignal): Promise<void> {
    const { limits, random } = this.#deps
    this.#wake.clear()
    if (retry === 'backoff') await this.#wake.sleep(backoffMs(failures, random, limits.retry), signal)
    // Never sooner than its base: what is retried slowly is dear.
    if (retry === 'slow') {
      const { baseMs } = limits.slowRetry
      await this.#wake.sleep(Math.max(baseMs, backoffMs(failures, random, limits.slowRetry)), signal)
    }
  }
}
