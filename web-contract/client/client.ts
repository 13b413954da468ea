/**
 * The typed client: connects, reduces, resumes, and says how far what it shows may be believed. Uses nothing
 * that needs a secure context, so it works on a plain-HTTP address in a local network too.
 */
import type { Frame } from '../frames.ts'
import type { ClientState } from '../state.ts'
import { PROTOCOL_VERSION } from '../vocabulary.ts'
import type { Attempt, Ended } from './attempt.ts'
import { backoffMs } from './backoff.ts'
import { eventSourceStream } from './event-source-stream.ts'
import { fetchStream } from './fetch-stream.ts'
import { history, type Requester, ShojiProblem, sendCommand } from './requests.ts'
import { sharedStream } from './shared-stream.ts'
import type { SseEvent } from './sse.ts'
import { createStore } from './store.ts'
import type { Clock, ConnectionState, ShojiClient, ShojiClientOptions } from './types.ts'
import { streamUrl } from './urls.ts'
import { startWatchdog } from './watchdog.ts'

const ITEMS_MAX = { default: 10_000, min: 2_000 } as const
/** A connection that stayed whole for this long was a good one: the next wait begins small again. */
const SETTLED_MS = 5_000
/** The server has no room: coming back soon would push out somebody else, who does the same. */
const CROWDED: ReadonlySet<string> = new Set(['replaced', 'overloaded'])

const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout: (run, delayMs) => setTimeout(run, delayMs),
  clearTimeout: timer => clearTimeout(timer as number),
}

type Transport = (attempt: Attempt) => Promise<Ended>

/**
 * Connects at once and for ever, until `close()`, the signal, or an answer that no retry can change.
 * Throws a TypeError for options that can't work. Errors of the callbacks surface as uncaught, and stop nothing.
 */
export const createShojiClient = (options: ShojiClientOptions): ShojiClient => connectClient(options)

/** The same; `onEvent` is given what was applied, as it came. */
export function connectClient(options: ShojiClientOptions, onEvent?: (event: SseEvent) => void): ShojiClient {
  const { selection, random = Math.random, clock = systemClock } = options
  const request: typeof fetch = options.fetch ?? ((input, init) => fetch(input, init))
  const life = new AbortController()
  const requester: Requester = { base: options.url, fetch: request, headers, signal: life.signal }
  const connect = transportOf()
  const maxItems = Math.max(ITEMS_MAX.min, options.maxItems ?? ITEMS_MAX.default)
  const store = createStore(clock, maxItems, state => tell(options.onState, state))

  let connection: ConnectionState = { state: 'catching_up' }
  let since: number | null = null
  let running: AbortController | undefined
  let wake: (() => void) | undefined
  let retryMs = 0
  /** Of the present connection. */
  let bye: Extract<Frame, { event: 'bye' }>['data'] | undefined
  let wholeSinceMs: number | undefined

  function transportOf(): Transport {
    const own = ownTransport()
    const { share, url, history: items, token, maxItems: most } = options
    if (share === undefined || typeof token === 'function') return own
    const { connect, viewer } = share
    const wish = { url, selection, viewer, token, history: items, maxItems: most }
    let alone = false
    return async attempt => {
      const ended = alone ? undefined : await sharedStream(attempt, wish, connect, clock)
      if (ended !== undefined) return ended
      alone = true
      return own(attempt)
    }
  }

  function ownTransport(): Transport {
    if (options.transport !== 'eventsource')
      return attempt => fetchStream(attempt, { fetch: request, headers })
    if (options.token !== undefined) throw new TypeError('an EventSource cannot send a token')
    const Source = options.EventSource ?? EventSource
    return attempt => eventSourceStream(attempt, { EventSource: Source, fetch: request })
  }

  async function headers(): Promise<Record<string, string>> {
    const { token } = options
    const text = typeof token === 'function' ? await token() : token
    return text === undefined ? {} : { authorization: `Bearer ${text}` }
  }

  function become(next: ConnectionState): void {
    if (JSON.stringify(next) === JSON.stringify(connection)) return
    connection = next
    tell(options.onConnection, next)
  }

  function take(event: SseEvent): void {
    if (event.data === '') {
      if (event.id !== undefined) store.moveTo(event.id)
      return
    }
    const frame = parseFrame(event)
    if (frame.event === 'bye') bye = frame.data
    const outgrown = store.apply(frame)
    if (frame.event === 'caught_up') wholeSinceMs ??= clock.now()
    onEvent?.(event)
    tell(options.onFrame, frame)
    if (frame.event !== 'bye') become({ state: store.all.live ? 'live' : 'catching_up' })
    if (outgrown) {
      store.moveTo(null)
      start()
    }
  }

  async function attemptOnce(stop: AbortSignal): Promise<Ended> {
    bye = undefined
    wholeSinceMs = undefined
    const ending = new AbortController()
    const end = (): void => ending.abort()
    stop.addEventListener('abort', end)
    const watchdog = startWatchdog(clock, () => store.all.heartbeatMs, end)
    try {
      return await connect({
        url: cursor => streamUrl(options.url, selection, { history: options.history, cursor }),
        position: () => store.all.position,
        signal: ending.signal,
        onBytes: () => {
          since = clock.now()
          watchdog.fed()
        },
        onEvent: event => {
          // A callback may have ended the connection in the middle of a chunk.
          if (ending.signal.aborted) return
          take(event)
          watchdog.fed()
        },
        onRetry: ms => {
          retryMs = ms
        },
        onAlive: () => watchdog.fed(),
        onInterrupted: (as = { state: 'stale', since }) => {
          store.rollBack()
          become(as)
        },
      })
    } finally {
      watchdog.stop()
      stop.removeEventListener('abort', end)
    }
  }

  async function run(stop: AbortSignal): Promise<void> {
    for (let failures = 0; ; failures++) {
      const ended = await attemptOnce(stop)
      if (stop.aborted) return
      store.rollBack()
      if (ended.why === 'refused') {
        const { status, code } = ended.problem
        become({ state: status === 401 ? 'signed_out' : 'denied', since, code })
        return
      }
      become({ state: ended.why === 'unreached' ? 'offline' : 'stale', since })
      const settled = wholeSinceMs !== undefined && clock.now() - wholeSinceMs >= SETTLED_MS
      if (settled && !CROWDED.has(bye?.reason ?? '')) failures = 0
      const askedMs = (ended.why === 'lost' ? ended.retryMs : undefined) ?? bye?.retry_ms ?? retryMs
      await pause(backoffMs(failures, random, askedMs), stop)
      if (stop.aborted) return
    }
  }

  function pause(delayMs: number, stop: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      const done = (): void => {
        clock.clearTimeout(timer)
        stop.removeEventListener('abort', done)
        wake = undefined
        resolve()
      }
      const timer = clock.setTimeout(done, delayMs)
      stop.addEventListener('abort', done)
      wake = done
    })
  }

  function halt(): void {
    running?.abort()
    running = undefined
    store.rollBack()
  }

  function start(): void {
    if (life.signal.aborted) return
    halt()
    running = new AbortController()
    void run(running.signal)
  }

  function close(): void {
    if (life.signal.aborted) return
    life.abort()
    options.signal?.removeEventListener('abort', close)
    halt()
    store.close()
    become({ state: 'closed' })
  }

  options.signal?.addEventListener('abort', close)
  const page: Partial<EventTarget> = globalThis
  page.addEventListener?.('online', () => wake?.(), { signal: life.signal })
  if (options.signal?.aborted === true) close()
  else start()

  return {
    get state(): ClientState {
      return store.whole
    },
    get connection() {
      return connection
    },
    reconnect: start,
    drop() {
      if (life.signal.aborted) return
      halt()
      become({ state: 'offline', since, dropped: true })
    },
    resume() {
      if (running === undefined) start()
    },
    close,
    sendCommand: (worker, body, commandOptions) => sendCommand(requester, worker, body, commandOptions),
    history: (worker, historyOptions) => history(requester, worker, historyOptions),
  }
}

/** What follows from a frame that can't be read is unknown, so the connection is given up and resumed. */
function parseFrame({ event, data, id }: SseEvent): Frame {
  const parsed: unknown = JSON.parse(data)
  if (typeof parsed !== 'object' || parsed === null) throw new TypeError('frame without an object')
  const frame = { event, data: parsed, ...(id !== undefined && { id }) } as Frame
  if (frame.event === 'hello' && frame.data.protocol !== PROTOCOL_VERSION)
    throw new ShojiProblem('unreadable', 200, 'another protocol version')
  return frame
}

function tell<T>(listener: ((value: T) => void) | undefined, value: T): void {
  try {
    listener?.(value)
  } catch (error) {
    queueMicrotask(() => {
      throw error
    })
  }
}
