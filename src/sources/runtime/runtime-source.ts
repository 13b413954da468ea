import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { type Clock, systemClock } from '../../lib/clock.ts'
import { ShojiError } from '../../lib/error.ts'
import { Slots } from '../../lib/slots.ts'
import type { ListedWorker, Source, SourceEvents, SourceSink, StatusChange } from '../source.ts'
import { type DialectChoice, Dialects } from './dialects.ts'
import { Discovery } from './discovery.ts'
import { RUNTIME_LIMITS, type RuntimeLimits } from './limits.ts'
import type { LinkDeps } from './link-deps.ts'
import { Links } from './links.ts'
import { Pressure } from './pressure.ts'
import { createRuntimeRest, type Listing, type RuntimeRest } from './rest.ts'
import { StatusBoard } from './status-board.ts'

export interface RuntimeSourceConfig {
  readonly id: string
  /** `http:` or `https:`, without credentials. */
  readonly url: string
  readonly token?: string
  readonly dialect: DialectChoice
}

export interface RuntimeSourceDeps {
  readonly events: SourceEvents
  readonly clock?: Clock
  /** Returns [0, 1). */
  readonly random?: () => number
  readonly limits?: Partial<RuntimeLimits>
}

/**
 * The client of one Runtime: finds its workers and observes each that runs on a connection of its own.
 * Throws `config_invalid` for an address or token that cannot be used; everything after that is retried.
 */
export const createRuntimeSource = (
  config: RuntimeSourceConfig,
  sink: SourceSink,
  deps: RuntimeSourceDeps,
): Source => {
  check(config)
  return new RuntimeSource(config, sink, deps)
}

const check = ({ id, url, token }: RuntimeSourceConfig): void => {
  const refuse = (what: string): never => {
    throw new ShojiError('config_invalid', `${what} of runtime ${id} cannot be used`)
  }
  if (!URL.canParse(url)) refuse('the url')
  const { protocol, username, password, search, hash } = new URL(url)
  if (!['http:', 'https:'].includes(protocol)) refuse('the url')
  if (username + password + search + hash !== '') refuse('the url')
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) refuse('the token')
}

/** Waiting mends these; the others somebody has to put right. */
const PASSING: ReadonlySet<string> = new Set(['upstream_unreachable'])

class RuntimeSource implements Source {
  readonly runtime: string
  readonly #events: SourceEvents
  readonly #rest: RuntimeRest
  readonly #status: StatusBoard
  readonly #dialects: Dialects
  readonly #pressure: Pressure
  readonly #links: Links
  readonly #discovery: Discovery
  readonly #life = new AbortController()
  #broken: { readonly cause: unknown } | null = null

  constructor(config: RuntimeSourceConfig, sink: SourceSink, deps: RuntimeSourceDeps) {
    const runtime = config.id
    const clock = deps.clock ?? systemClock
    const random = deps.random ?? Math.random
    const limits = { ...RUNTIME_LIMITS, ...deps.limits }
    const { events } = deps
    const { signal } = this.#life
    this.runtime = runtime
    this.#events = events
    this.#rest = createRuntimeRest({ ...config, limits, clock })
    this.#status = new StatusBoard(
      runtime,
      () => clock.now(),
      change => sink.status(change),
    )
    this.#dialects = new Dialects(config.dialect)
    this.#pressure = new Pressure(sink, signal, (worker, queuedBytes) =>
      events.paused({ runtime, worker, queuedBytes }),
    )
    const shared: LinkDeps = {
      runtime,
      url: config.url,
      ...(config.token === undefined ? {} : { token: config.token }),
      sink,
      events,
      limits,
      clock,
      random,
      newConnectionId: () => randomBytes(9).toString('base64url'),
      dialects: this.#dialects,
      slots: new Slots(limits.connectsAtOnce),
      pressure: this.#pressure,
      status: this.#status,
    }
    this.#links = new Links(shared, signal, cause => {
      this.#broken ??= { cause }
      this.#life.abort()
    })
    // Each connection listens to it, and there may be a thousand.
    setMaxListeners(0, signal)
    this.#discovery = new Discovery({
      rest: this.#rest,
      limits,
      clock,
      random,
      listed: listing => this.#found(listing),
      failed: code => this.#lost(code),
    })
  }

  /** Once only: what it ends stays ended. */
  async run(signal: AbortSignal): Promise<void> {
    const end = () => this.#life.abort()
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted) end()
    try {
      await this.#discovery.run(this.#life.signal)
    } finally {
      end()
      signal.removeEventListener('abort', end)
      await this.#links.ended()
    }
    if (this.#broken !== null) throw this.#broken.cause
  }

  workers(): readonly ListedWorker[] {
    return [...this.#links.listed.values()]
  }

  wanted(worker: string): void {
    if (!this.#links.want(worker)) this.#discovery.poke()
  }

  async sendInput(worker: string, content: string, signal: AbortSignal): Promise<void> {
    if (!this.#links.listed.has(worker)) throw new ShojiError('worker_not_found', 'the worker is not listed')
    try {
      await this.#rest.sendInput(worker, content, signal)
    } finally {
      this.#discovery.poke()
    }
  }

  upstream(worker?: string): StatusChange {
    return this.#status.of(worker)
  }

  #found({ workers, beyondLimit }: Listing): void {
    const wasAway = this.#status.of().upstream !== 'live'
    this.#status.set(undefined, 'live')
    this.#pressure.age()
    const unconnected = this.#links.update(workers)
    if (wasAway) this.#links.nudge()
    this.#events.discovered({
      runtime: this.runtime,
      workers: workers.length,
      beyondLimit: beyondLimit + unconnected,
    })
  }

  #lost(code: string): void {
    this.#dialects.forget()
    this.#status.set(undefined, PASSING.has(code) ? 'reconnecting' : 'degraded', code)
    this.#events.discoveryFailed({ runtime: this.runtime, code })
  }
}
