/**
 * Fetching a snapshot beside the connection that stands, where the stream may have lost or doubled something.
 *
 * 1. Only while a believed connection stands, and one snapshot at a time.
 * 2. Only when the stream says that it is due and that the worker is at rest; not while reading stands still.
 * 3. At most one every `resyncEveryMs` a worker, more seldom while they come to nothing.
 * 4. A running worker's snapshot and a stand-in tell nothing: they are thrown away.
 * 5. A snapshot is ahead of the stream (R21). So what the Runtime had written on the connection that stands when
 *    the snapshot was read is waited for, and if the stream has moved since it was asked for, it is thrown away.
 * 6. What is said otherwise ends the connection that stands: the next one begins a new list.
 */
import type { Envelope } from '../../journal/entry.ts'
import { asRecord } from '../../lib/json.ts'
import type { Dialect } from '../source.ts'
import { Connection } from './connection.ts'
import type { LinkDeps } from './link-deps.ts'
import { glance, isStandIn } from './opening.ts'
import type { WorkerStream } from './worker-stream.ts'

export type ResyncState = 'away' | 'watching' | 'fetching' | 'fencing' | 'spacing'

export type ResyncHappening =
  /** A believed connection stands, or it ended. */
  | 'stands'
  | 'falls'
  /** A snapshot is due, and now is a time for it. */
  | 'called'
  /** A snapshot of a worker at rest was read. */
  | 'shown'
  /** The snapshot did not come, or is thrown away. */
  | 'unfit'
  /** All that was written before the snapshot was read has come, and the stream has not moved. */
  | 'passed'
  /** The next one may be fetched. */
  | 'spaced'

type Act = 'none' | 'look' | 'fetch' | 'fence' | 'take' | 'space' | 'leave'

interface Step {
  readonly to: ResyncState
  readonly act: Act
}

const go = (to: ResyncState, act: Act = 'none'): Step => ({ to, act })
const leave = go('away', 'leave')

export const RESYNC_STEPS: Readonly<Record<ResyncState, Readonly<Record<ResyncHappening, Step>>>> = {
  away: {
    // The time between two counts over connections.
    stands: go('spacing', 'space'),
    falls: go('away'),
    called: go('away'),
    shown: go('away'),
    unfit: go('away'),
    passed: go('away'),
    spaced: go('away'),
  },
  watching: {
    stands: go('watching'),
    falls: leave,
    called: go('fetching', 'fetch'),
    shown: go('watching'),
    unfit: go('watching'),
    passed: go('watching'),
    spaced: go('watching'),
  },
  fetching: {
    stands: go('fetching'),
    falls: leave,
    called: go('fetching'),
    shown: go('fencing', 'fence'),
    unfit: go('spacing', 'space'),
    passed: go('fetching'),
    spaced: go('fetching'),
  },
  fencing: {
    stands: go('fencing'),
    falls: leave,
    called: go('fencing'),
    shown: go('fencing'),
    unfit: go('spacing', 'space'),
    passed: go('spacing', 'take'),
    spaced: go('fencing'),
  },
  spacing: {
    stands: go('spacing'),
    falls: leave,
    // Looked at again when the time has passed.
    called: go('spacing'),
    shown: go('spacing'),
    unfit: go('spacing'),
    passed: go('spacing'),
    spaced: go('watching', 'look'),
  },
}

/** The time between two doubles so often while they come to nothing. */
const DOUBLINGS_MAX = 3

/** The connection that stands. */
interface Standing {
  readonly dialect: Dialect
  readonly connection: Pick<Connection, 'fence' | 'paused' | 'end'>
}

interface Fetched {
  readonly snapshot: Envelope
  /** The stream's, when it was asked for. */
  readonly version: number
}

/** Keeps the list of one worker true while it is observed, over all of its connections. */
export class Resync {
  readonly #worker: string
  readonly #stream: WorkerStream
  readonly #deps: LinkDeps
  #state: ResyncState = 'away'
  #standing: Standing | null = null
  #life = new AbortController()
  #fetched: Fetched | null = null
  readonly #running = new Set<Promise<void>>()
  #fetchedAt = Number.NEGATIVE_INFINITY
  #inVain = 0

  constructor(worker: string, stream: WorkerStream, deps: LinkDeps) {
    this.#worker = worker
    this.#stream = stream
    this.#deps = deps
  }

  /** A believed connection stands. */
  stands(standing: Standing): void {
    this.#standing = standing
    this.#life = new AbortController()
    this.#stream.onResync(() => this.#look())
    this.#step('stands')
  }

  /** It ended. Resolves when nothing of what it was fetched beside is open any more. */
  async falls(): Promise<void> {
    this.#step('falls')
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  #step(happening: ResyncHappening): void {
    const { to, act } = RESYNC_STEPS[this.#state][happening]
    this.#state = to
    if (act === 'look') this.#look()
    else if (act === 'fetch') this.#run(this.#fetch(this.#life.signal))
    else if (act === 'fence') this.#run(this.#fence(this.#life.signal))
    else if (act === 'space') this.#run(this.#space(this.#life.signal))
    else if (act === 'take') {
      this.#take()
      this.#run(this.#space(this.#life.signal))
    } else if (act === 'leave') this.#leave()
  }

  #run(what: Promise<void>): void {
    const running = what.finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  #leave(): void {
    this.#stream.onResync(null)
    this.#standing = null
    this.#fetched = null
    this.#life.abort()
  }

  #look(): void {
    const { due, idle } = this.#stream.resync
    if (this.#state === 'watching' && due && idle) this.#step('called')
  }

  async #space(signal: AbortSignal): Promise<void> {
    const { clock, limits } = this.#deps
    const between = limits.resyncEveryMs * 2 ** Math.min(this.#inVain, DOUBLINGS_MAX)
    const left = this.#fetchedAt + between - clock.now()
    if (left > 0) await clock.after(Math.min(left, between), signal)
    if (!signal.aborted) this.#step('spaced')
  }

  async #fetch(signal: AbortSignal): Promise<void> {
    const { slots, pressure, clock } = this.#deps
    const free = await slots.take(signal)
    this.#fetchedAt = clock.now()
    try {
      const { due, idle } = this.#stream.resync
      const reading = this.#standing?.connection.paused === false && !pressure.full
      if (!signal.aborted && due && idle && reading) await this.#glance(signal)
    } finally {
      free()
    }
    if (!signal.aborted) this.#step(this.#fetched === null ? 'unfit' : 'shown')
  }

  async #glance(signal: AbortSignal): Promise<void> {
    const { url, token, limits, clock, newConnectionId } = this.#deps
    const { version } = this.#stream.resync
    let snapshot: Envelope | null = null
    const connection = new Connection(
      {
        url,
        ...(token === undefined ? {} : { token }),
        dialect: this.#standing?.dialect ?? 'events-ws',
        worker: this.#worker,
        connection: newConnectionId(),
      },
      glance(shown => {
        snapshot = shown
      }),
      UNHEARD,
      limits,
      clock,
    )
    const abort = () => connection.end('aborted')
    signal.addEventListener('abort', abort, { once: true })
    await connection.ended
    signal.removeEventListener('abort', abort)
    if (signal.aborted) return
    if (snapshot === null) this.#came('failed')
    else if (isStandIn(snapshot) || isRunning(snapshot)) this.#came('thrown_away')
    else this.#fetched = { snapshot, version }
  }

  async #fence(signal: AbortSignal): Promise<void> {
    const passed = (await this.#standing?.connection.fence()) ?? false
    if (signal.aborted) return
    const moved = this.#stream.resync.version !== this.#fetched?.version
    if (passed && !moved) {
      this.#step('passed')
      return
    }
    this.#fetched = null
    this.#came('thrown_away')
    // What moves comes to rest again, and is worth asking then.
    if (moved) this.#inVain = 0
    this.#step('unfit')
  }

  #take(): void {
    const snapshot = this.#fetched?.snapshot
    const connection = this.#standing?.connection
    this.#fetched = null
    if (snapshot === undefined || connection === undefined) return
    try {
      const outcome = this.#stream.resyncWith(snapshot)
      this.#came(outcome.outcome)
      if (outcome.outcome !== 'differs') return
      this.#stream.replacedFor(outcome.reason)
      connection.end('resynced')
    } catch {
      connection.end('not_taken')
    }
  }

  #came(outcome: 'same' | 'adopted' | 'differs' | 'thrown_away' | 'failed'): void {
    this.#inVain = outcome === 'thrown_away' || outcome === 'failed' ? this.#inVain + 1 : 0
    this.#deps.events.resynced({ runtime: this.#deps.runtime, worker: this.#worker, outcome })
  }
}

/** A glance is over before anything could be handed on. */
const UNHEARD = {
  believed: () => undefined,
  caughtUp: () => undefined,
  accept: () => undefined,
  reject: () => undefined,
}

const isRunning = ({ parsed }: Envelope): boolean => asRecord(asRecord(parsed).data).status === 'running'
