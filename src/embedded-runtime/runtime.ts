import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { type RawData, WebSocketServer } from 'ws'
import { type HttpAnswer, rawAnswer, unauthorized } from './answer.ts'
import { type Dialect, dialectOf } from './dialect.ts'
import type { Generation } from './events.ts'
import { createIds } from './ids.ts'
import { handleMethod } from './methods.ts'
import { ObservationLog } from './observation-log.ts'
import { Observer } from './observer.ts'
import { answerRest } from './rest.ts'
import { Traffic } from './traffic.ts'
import { beginObservation, upgradeTarget } from './upgrade.ts'
import { EmbeddedWorker, type WorkerOptions } from './worker.ts'

export interface EmbeddedRuntimeOptions {
  readonly generation: Generation
  readonly host?: string
  /** 0: any free port. A restart keeps it. */
  readonly port?: number
  /** Absent: no token is asked for. */
  readonly token?: string
  /** `none`: a restart begins again with no worker and cursor 1; `memory-store`: as with the file store (R38, R39). */
  readonly store?: 'none' | 'memory-store'
  /** Events kept for all workers together. */
  readonly backlogEvents?: number
  /** Events that may wait for one socket, of all workers together. */
  readonly queueEvents?: number
  /** Events of all workers that the memory store gives back at a restart. */
  readonly storedEvents?: number
  /** Bytes that may wait in this process for one socket before its events wait in the queue. */
  readonly socketBufferBytes?: number
  readonly displayName?: string
  /** What workers get that are not told otherwise, those created by REST too. */
  readonly workerDefaults?: Omit<WorkerOptions, 'workerId'>
  readonly now?: () => number
  readonly random?: () => number
  readonly log?: (line: string) => void
}

export interface RestartOptions {
  /** Default: as `store` says. */
  readonly keepStore?: boolean
  /** Runs while nothing listens. */
  readonly whileDown?: () => void | Promise<void>
}

const maxBodyBytes = 4 * 1024 * 1024
const maxFrameBytes = 1024 * 1024

const readBody = async (request: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request) {
    const part = Buffer.from(chunk as Buffer)
    bytes += part.length
    if (bytes > maxBodyBytes) throw new RangeError('request body too large')
    chunks.push(part)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const splitUrl = (url: string): { readonly path: string; readonly query: string } => {
  const at = url.indexOf('?')
  return at < 0 ? { path: url, query: '' } : { path: url.slice(0, at), query: url.slice(at + 1) }
}

/**
 * A Runtime that speaks the real protocol over real sockets in this process: its REST calls, its
 * observation sockets, cursors and limits, of either generation. Workers are added by the caller, who
 * emits their events or gives them an agent.
 */
export class EmbeddedRuntime implements AsyncDisposable {
  readonly generation: Generation
  readonly dialect: Dialect
  readonly store: 'none' | 'memory-store'
  readonly displayName: string
  readonly queueEvents: number
  readonly workers = new Map<string, EmbeddedWorker>()
  readonly traffic = new Traffic()
  readonly log: ObservationLog
  /** Answers an upgrade or a request instead of the Runtime; see `misbehave`. */
  intercept: ((kind: 'request' | 'upgrade', path: string) => HttpAnswer | undefined) | undefined
  token: string | undefined
  diagnosticCount = 0
  readonly #options: EmbeddedRuntimeOptions
  readonly #now: () => number
  readonly #newId: () => string
  readonly #sockets = new Set<Duplex>()
  readonly #observers = new Set<Observer>()
  #server: Server | undefined
  #port: number
  #nextWorkerId = 1
  #eventId = 1

  constructor(options: EmbeddedRuntimeOptions) {
    this.#options = options
    this.generation = options.generation
    this.dialect = dialectOf(options.generation)
    this.store = options.store ?? 'none'
    this.displayName = options.displayName ?? 'demo-runtime'
    this.queueEvents = options.queueEvents ?? 256
    this.token = options.token
    this.#port = options.port ?? 0
    this.#now = options.now ?? Date.now
    this.#newId = createIds(this.#now, options.random ?? Math.random)
    this.log = new ObservationLog({
      backlogEvents: options.backlogEvents ?? 1024,
      queueEvents: this.queueEvents,
      storedEvents: this.store === 'none' ? 0 : (options.storedEvents ?? 16_384),
    })
  }

  /** The base URL, without a slash at its end. */
  get url(): string {
    return `http://${this.#options.host ?? '127.0.0.1'}:${this.#port}`
  }

  get port(): number {
    return this.#port
  }

  /** Sockets open now, of all routes. */
  get connectionsOpen(): number {
    return this.#observers.size
  }

  /** All open sockets, observing or taking methods. */
  get observers(): ReadonlySet<Observer> {
    return this.#observers
  }

  addWorker(options: WorkerOptions = {}): EmbeddedWorker {
    const given = options.workerId ?? (this.generation === 'events-ws' ? this.#takeWorkerId() : this.#newId())
    const id = this.dialect.parseId(given)
    if (id === undefined) throw new TypeError(`not a worker id of ${this.generation}: ${given}`)
    if (this.workers.has(id)) throw new TypeError(`worker ${id} exists`)
    if (this.generation === 'events-ws' && BigInt(id) >= BigInt(this.#nextWorkerId)) {
      this.#nextWorkerId = Math.min(Number(BigInt(id)) + 1, Number.MAX_SAFE_INTEGER)
    }
    const worker = new EmbeddedWorker(
      id,
      { ...this.#options.workerDefaults, ...options },
      {
        dialect: this.dialect,
        log: this.log,
        now: this.#now,
        newId: this.#newId,
      },
    )
    worker.lastEventId = this.takeEventId()
    this.workers.set(id, worker)
    return worker
  }

  worker(id: string): EmbeddedWorker {
    const worker = this.workers.get(id)
    if (!worker) throw new TypeError(`no worker ${id}`)
    return worker
  }

  /** The worker leaves the catalog; its sockets stay open and silent (R11), its id is not given again. */
  deleteWorker(id: string): void {
    const worker = this.workers.get(id)
    if (!worker) return
    this.workers.delete(id)
    this.log.forget(id)
    this.takeEventId()
  }

  /** The counter of acks and `last_event_id`, which has nothing to do with cursors (R6). */
  takeEventId(): number {
    this.#eventId += 1
    return this.#eventId
  }

  /** A create that failed: it uses up an integer id and an event id (R3). Returns the former. */
  failCreate(): string {
    this.takeEventId()
    return this.#takeWorkerId()
  }

  /** Kills the process as seen from outside, every socket with 1006 at once (R42), and starts it again on the same port. */
  async restart(options: RestartOptions = {}): Promise<void> {
    await this.#down()
    if (options.keepStore ?? this.store === 'memory-store') this.#restoreStore()
    else this.#beginAgain()
    await options.whileDown?.()
    await this.listen()
  }

  async listen(): Promise<void> {
    const server = createServer((request, response) => {
      this.#request(request, response).catch((cause: unknown) => {
        this.#options.log?.(`request failed: ${String(cause)}`)
        response.destroy()
      })
    })
    server.on('connection', socket => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    const sockets = new WebSocketServer({
      noServer: true,
      autoPong: false,
      perMessageDeflate: false,
      maxPayload: maxFrameBytes,
    })
    server.on('upgrade', (request, socket, head) => this.#upgrade(sockets, request, socket, head))
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(this.#port, this.#options.host ?? '127.0.0.1', resolve)
    })
    this.#port = (server.address() as AddressInfo).port
    this.#server = server
  }

  /** Ends all sockets and stops listening. */
  async close(): Promise<void> {
    for (const worker of this.workers.values()) worker.die()
    await this.#down()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #down(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    for (const observer of [...this.#observers]) observer.destroy()
    for (const socket of [...this.#sockets]) socket.destroy()
    if (server) await new Promise(resolve => server.close(resolve))
  }

  #takeWorkerId(): string {
    const id = this.#nextWorkerId
    this.#nextWorkerId += 1
    return String(id)
  }

  #restoreStore(): void {
    this.diagnosticCount = 0
    for (const worker of this.workers.values()) {
      worker.die()
      this.diagnosticCount += 1
      if (!worker.torn) {
        worker.lastEventId = this.takeEventId()
        continue
      }
      this.workers.delete(worker.id)
      this.log.forget(worker.id)
    }
    // Later Runtimes keep the workers and their logs, but not the observation log (`later-restart`).
    if (this.generation === 'events-ws') this.log.restore()
    else this.log.reset()
  }

  #beginAgain(): void {
    for (const worker of this.workers.values()) worker.die()
    this.workers.clear()
    this.log.reset()
    this.#nextWorkerId = 1
    this.#eventId = 1
    this.diagnosticCount = 0
  }

  authorised(request: IncomingMessage): boolean {
    return this.token === undefined || request.headers.authorization === `Bearer ${this.token}`
  }

  async #request(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { path, query } = splitUrl(request.url ?? '/')
    const method = request.method ?? 'GET'
    const body = await readBody(request)
    const answer =
      this.intercept?.('request', path) ??
      (this.authorised(request)
        ? answerRest(this, { method, path, body, contentType: request.headers['content-type'] ?? '' })
        : unauthorized())
    response.writeHead(answer.status, { ...answer.headers, 'content-length': Buffer.byteLength(answer.body) })
    response.end(answer.body)
    const { authorization } = request.headers
    this.traffic.request({ method, path, query, authorization, body, status: answer.status })
  }

  #upgrade(sockets: WebSocketServer, request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { path, query } = splitUrl(request.url ?? '/')
    const cursor = new URLSearchParams(query).get('cursor') ?? undefined
    const seen = (status: number): void =>
      this.traffic.upgrade({
        path,
        query,
        status,
        authorization: request.headers.authorization,
        ...(cursor === undefined ? {} : { cursor }),
      })
    const target = upgradeTarget(this, request, path, query)
    if ('headers' in target) {
      socket.on('error', () => socket.destroy())
      socket.end(rawAnswer(target))
      seen(target.status)
      return
    }
    sockets.handleUpgrade(request, socket, head, ws => {
      const { worker, route } = target
      const observer: Observer = new Observer(ws, socket, {
        workerId: worker?.id ?? '',
        log: this.log,
        socketBufferBytes: this.#options.socketBufferBytes ?? 65_536,
        overrunFrame: this.dialect.endingFrame('cursor_expired', 'runtime observation backlog was overrun'),
        onMessage: (from, data, binary) => this.#message(from, worker, route, data, binary),
        onClose: from => {
          this.#observers.delete(from)
          worker?.observers.delete(from)
          this.traffic.changed()
        },
      })
      this.#observers.add(observer)
      if (worker && route === this.dialect.observationRoute) beginObservation(this, observer, worker, cursor)
      seen(101)
    })
  }

  #message(
    from: Observer,
    worker: EmbeddedWorker | undefined,
    route: 'events' | 'protocol',
    data: RawData,
    binary: boolean,
  ): void {
    if (route === 'events') {
      from.end(
        this.dialect.endingFrame('observation_only', 'runtime worker event WebSocket is observation-only'),
      )
      return
    }
    if (binary || !worker) return
    const answer = handleMethod(worker, this.generation, data.toString())
    if (answer) from.say(JSON.stringify(answer))
    this.traffic.method()
  }
}

/** Starts a Runtime; it listens when this resolves. Rejects if the port is taken. */
export const startEmbeddedRuntime = async (options: EmbeddedRuntimeOptions): Promise<EmbeddedRuntime> => {
  const runtime = new EmbeddedRuntime(options)
  await runtime.listen()
  return runtime
}
