import { Wake } from '../../lib/wake.ts'
import type { Dialect, ListedWorker } from '../source.ts'
import { backoffMs } from './backoff.ts'
import type { Ended } from './connection.ts'
import { type EndCode, type Retry, ruleOf } from './ends.ts'
import type { LinkDeps } from './link-deps.ts'
import { isAlive } from './lives.ts'
import { Observation } from './observation.ts'
import type { Reconnection } from './overlap.ts'
import type { Resumption } from './resumption.ts'
import { Resync } from './resync.ts'
import { WorkerStream } from './worker-stream.ts'

/** `stay`: observe it. `look`: fetch the snapshot of a worker that does not run. `rest`: nothing to do. */
type Need = 'stay' | 'look' | 'rest'

interface Attempt {
  readonly need: Need
  readonly profile: string | null
  /** The listing under which it began. */
  readonly listing: string
  /** Lets the next worker connect. */
  readonly leave: () => void
}

/** What of a listing is news. Later Runtimes list the activity, which changes with every turn and is none. */
const listingOf = (listed: ListedWorker | null): string =>
  listed === null ? '' : JSON.stringify([isAlive(listed.status) ? 'alive' : listed.status, listed.profile])

const nothingOpened = (code: EndCode): Ended => ({ code, opened: false, believedAt: null, verdict: null })

/**
 * Keeps one worker connected while it is listed as running, and looks once at one that is not when asked to.
 * A connection goes on with the list that is known where that is proven, and begins a new one otherwise.
 */
export class WorkerLink {
  readonly worker: string
  readonly #deps: LinkDeps
  readonly #wake: Wake
  readonly #stream: WorkerStream
  readonly #resync: Resync
  #listed: ListedWorker | null
  #admitted: boolean
  #wanted = false
  #done = false
  /** The listing under which nothing more is to be had of the worker. */
  #exhausted: string | null = null
  /** Where the next resume asks from. */
  #asked: Reconnection['asked'] = 'oldest'
  #staying: Observation | null = null
  #lingering: AbortController | null = null

  /** `admitted`: it may have a lasting connection. */
  constructor(listed: ListedWorker, admitted: boolean, deps: LinkDeps) {
    this.worker = listed.worker
    this.#admitted = admitted
    this.#listed = listed
    this.#deps = deps
    this.#wake = new Wake(deps.clock)
    this.#stream = new WorkerStream(deps.sink, deps.runtime, listed.worker)
    this.#resync = new Resync(listed.worker, this.#stream, deps)
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

  /** A wait that it does not end is left alone: viewers who come and go must not hurry what is tried slowly. */
  want(): void {
    const before = this.#need()
    this.#wanted = true
    if (this.#need() !== before) this.#wake.call()
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
      const { retry } = ruleOf(ended.code)
      // News in the meantime go before the wait.
      if (this.#need() === need) await this.#wait(retry, failures, signal)
      // What is tried again at once is one more step of the same try.
      if (retry !== 'now') failures += 1
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
      const attempt = { need, profile: listed.profile, listing: listingOf(listed), leave }
      let ended = nothingOpened('not_ready')
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

  async #observe(dialect: Dialect, { need, profile, leave }: Attempt, signal: AbortSignal): Promise<Ended> {
    let resumption: Resumption | null = null
    try {
      if (dialect === 'events-ws') resumption = await this.#stream.resumption(this.#asked, need === 'stay')
    } catch {
      return nothingOpened('not_ready')
    }
    if (signal.aborted) return nothingOpened('aborted')
    // Nothing may be resumed under another profile, nor begun under one that is no longer true.
    if (this.#listed !== null && this.#listed.profile !== profile) return nothingOpened('profile_changed')
    const { dialects } = this.#deps
    const observation = new Observation(
      {
        worker: this.worker,
        dialect,
        lasting: need === 'stay',
        resumption,
        stream: this.#stream,
        resync: this.#resync,
        believed: () => {
          dialects.found(dialect)
          leave()
        },
      },
      this.#deps,
    )
    const abort = () => observation.end('aborted')
    signal.addEventListener('abort', abort, { once: true })
    if (need === 'stay') this.#staying = observation
    this.#linger()
    const ended = await observation.ended
    this.#staying = null
    this.#lingering?.abort()
    signal.removeEventListener('abort', abort)
    if (ended.verdict !== null) dialects.found(dialect)
    this.#asked = ended.code === 'ask_from_zero' ? 'zero' : 'oldest'
    return ended
  }

  /** What an end means for the stream, for viewers, and for the next try. */
  #settle({ code }: Ended, { listing }: Attempt): void {
    const { dialects, status } = this.#deps
    const rule = ruleOf(code)
    if (code === 'no_snapshot' || code === 'route_missing') dialects.forget()
    if (rule.upstream === 'gone') this.#stop()
    if (rule.retry === 'listing') {
      const now = this.#listed
      this.#exhausted = code === 'left' ? listingOf(now) : listing
    } else if (rule.retry !== 'never' && rule.upstream !== undefined)
      status.set(this.worker, rule.upstream, rule.code)
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
