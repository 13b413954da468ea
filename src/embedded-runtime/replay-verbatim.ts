import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { type WebSocket, WebSocketServer } from 'ws'
import { empty, type HttpAnswer, json, rawAnswer, workerNotFound } from './answer.ts'
import { isObject, type Json, parseJson } from './json.ts'
import { type RecordedConnection, type RecordedHttp, type Recording, recordedWorkers } from './recording.ts'

export interface VerbatimOptions {
  readonly host?: string
  readonly port?: number
  /** `none`: as fast as the socket takes it; a number scales the recorded pauses (1: as recorded). */
  readonly pauses?: 'none' | number
  /** Serve this recorded connection to everyone who connects to its worker and route. */
  readonly connection?: number
  /** `synthesised`: all workers of the recording from the start, whatever listings were recorded. */
  readonly listing?: 'recorded' | 'synthesised'
  /** How long the stream waits at the fence for the client's ping before it goes on without. */
  readonly pingWaitMs?: number
}

/**
 * Where a client's ping is answered, as a number of frames from the Runtime: after those that came before
 * the first recorded pong. Without a recorded pong, directly after the snapshot; with a cursor after the
 * backlog too, which ends at the first pause or the next recorded request.
 */
export const fencePlace = (recording: Recording, connection: RecordedConnection): number => {
  const said = connection.frames.filter(frame => frame.fromRuntime && frame.kind !== 'ping')
  const pong = said.findIndex(frame => frame.kind === 'pong')
  if (pong >= 0) return pong
  if (!connection.query.includes('cursor=')) return Math.min(1, said.length)
  const request = recording.http.find(line => line.line > connection.openLine && line.method === 'POST')
  const end = said.findIndex((frame, index) => {
    const previous = said[index - 1]
    if (!previous) return false
    return (
      frame.atMs - previous.atMs > longestBacklogPauseMs ||
      (request !== undefined && frame.line > request.line)
    )
  })
  return end < 0 ? said.length : end
}

const longestBacklogPauseMs = 25

const answerOf = (line: RecordedHttp): HttpAnswer => {
  const { 'content-length': _length, connection: _connection, ...headers } = line.headers
  return { status: line.status, headers, body: line.text }
}

const workersIn = (text: string): Json[] => {
  const body = parseJson(text)
  if (!isObject(body)) return []
  if (Array.isArray(body.workers)) return [...body.workers]
  return isObject(body.worker) && body.worker.profile !== undefined ? [body.worker] : []
}

const idOf = (worker: Json): string => (isObject(worker) ? String(worker.worker_id) : '')

/** All workers that a recording shows, as its create and read answers first showed them. */
const synthesisedListing = (recording: Recording): Json[] => {
  const workers = new Map<string, Json>()
  for (const line of recording.http) {
    for (const worker of line.status === 200 ? workersIn(line.text) : []) {
      if (!workers.has(idOf(worker))) workers.set(idOf(worker), worker)
    }
  }
  for (const id of recordedWorkers(recording)) {
    const worker_id = recording.generation === 'events-ws' ? Number(id) : id
    if (!workers.has(id)) workers.set(id, { worker_ref: { worker_id }, worker_id, status: 'running' })
  }
  return [...workers.values()]
}

/** A recording served again: the same answers and the same frames, in the recorded order. */
export class VerbatimRuntime implements AsyncDisposable {
  readonly recording: Recording
  /** The recorded connections that were served so far, in order. */
  readonly served: number[] = []
  readonly #options: VerbatimOptions
  readonly #rest = new Map<string, HttpAnswer[]>()
  readonly #connections = new Map<string, RecordedConnection[]>()
  readonly #listing: HttpAnswer
  readonly #sockets = new Set<Duplex>()
  readonly #upgraded = new Set<Duplex>()
  readonly #ended = new AbortController()
  #server: Server | undefined
  #port = 0

  constructor(recording: Recording, options: VerbatimOptions) {
    this.recording = recording
    this.#options = options
    this.#listing = json({ workers: synthesisedListing(recording) })
    for (const line of recording.http) {
      const key = `${line.method} ${line.path}`
      const answers = this.#rest.get(key) ?? []
      answers.push(answerOf(line))
      this.#rest.set(key, answers)
    }
    for (const connection of recording.connections) {
      const key = `${connection.workerId} ${connection.route}`
      const list = this.#connections.get(key) ?? []
      if (options.connection === undefined || options.connection === connection.conn) list.push(connection)
      this.#connections.set(key, list)
    }
  }

  get url(): string {
    return `http://${this.#options.host ?? '127.0.0.1'}:${this.#port}`
  }

  async listen(): Promise<void> {
    const server = createServer((request, response) => {
      request.resume()
      const answer = this.#answer(request.method ?? 'GET', request.url ?? '/')
      response.writeHead(answer.status, {
        ...answer.headers,
        'content-length': Buffer.byteLength(answer.body),
      })
      response.end(answer.body)
    })
    const sockets = new WebSocketServer({ noServer: true, autoPong: false, perMessageDeflate: false })
    server.on('connection', socket => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    server.on('upgrade', (request, socket, head) => {
      const connection = this.#next(request.url ?? '/')
      if (!connection || connection.refused) {
        socket.on('error', () => socket.destroy())
        socket.end(
          rawAnswer(connection?.refused ? answerOf(connection.refused) : this.#notThere(request.url)),
        )
        return
      }
      this.#upgraded.add(socket)
      socket.on('close', () => this.#upgraded.delete(socket))
      sockets.handleUpgrade(request, socket, head, ws => {
        this.#serve(ws, socket, connection).catch(() => socket.destroy())
      })
    })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(this.#options.port ?? 0, this.#options.host ?? '127.0.0.1', resolve)
    })
    this.#port = (server.address() as AddressInfo).port
    this.#server = server
  }

  /** Ends all open sockets, so that a client connects again and gets the next recorded connection. */
  cut(): void {
    for (const socket of [...this.#upgraded]) socket.destroy()
  }

  async close(): Promise<void> {
    this.#ended.abort()
    const server = this.#server
    this.#server = undefined
    for (const socket of [...this.#sockets]) socket.destroy()
    if (server) await new Promise(resolve => server.close(resolve))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #answer(method: string, path: string): HttpAnswer {
    const answers = this.#rest.get(`${method} ${path}`)
    const isListing = method === 'GET' && path === '/v1/workers'
    if (isListing && (!answers || this.#options.listing === 'synthesised')) return this.#listing
    const answer = answers && answers.length > 1 ? answers.shift() : answers?.[0]
    if (answer) return answer
    const id = /^\/v1\/workers\/([^/?]+)$/.exec(path)?.[1]
    const listed = workersIn(this.#listing.body).find(worker => idOf(worker) === id)
    return method === 'GET' && listed !== undefined ? json({ worker: listed }) : empty(404)
  }

  /** The later generation has no `events/ws`: a route that does not exist answers with an empty body (R8). */
  #notThere(url = '/'): HttpAnswer {
    const missing = this.recording.generation === 'protocol-ws' && /\/events\/ws/.test(url)
    return missing ? empty(404) : workerNotFound('')
  }

  #next(url: string): RecordedConnection | undefined {
    const match = /^\/v1\/workers\/([^/]+)\/(events|protocol)\/ws/.exec(url)
    const list = this.#connections.get(`${decodeURIComponent(match?.[1] ?? '')} ${match?.[2] ?? ''}`)
    const connection = list && list.length > 1 ? list.shift() : list?.[0]
    if (connection) this.served.push(connection.conn)
    return connection
  }

  async #serve(ws: WebSocket, socket: Duplex, connection: RecordedConnection): Promise<void> {
    ws.close = () => ws.terminate()
    ws.on('error', () => ws.terminate())
    const pings: Buffer[] = []
    let fenced = false
    let pinged: () => void = () => undefined
    const firstPing = new Promise<void>(resolve => {
      pinged = resolve
    })
    ws.on('ping', data => {
      if (fenced) ws.pong(data)
      else pings.push(data)
      pinged()
    })
    const fence = async (): Promise<void> => {
      const waited = new AbortController()
      const signal = AbortSignal.any([waited.signal, this.#ended.signal])
      const patience = delay(this.#options.pingWaitMs ?? 1_000, undefined, { signal }).catch(() => undefined)
      await Promise.race([firstPing, patience])
      waited.abort()
      fenced = true
      for (const data of pings.splice(0)) ws.pong(data)
    }
    const place = fencePlace(this.recording, connection)
    const said = connection.frames.filter(frame => frame.fromRuntime && frame.kind !== 'ping')
    let previousMs: number | undefined
    for (const [index, frame] of said.entries()) {
      if (index === place) await fence()
      await this.#pause(frame.atMs - (previousMs ?? frame.atMs))
      previousMs = frame.atMs
      if (frame.kind === 'text') ws.send(frame.text)
      else if (frame.kind === 'binary') ws.send(Buffer.from(frame.text, 'base64'), { binary: true })
    }
    const ends = connection.close !== undefined && !connection.close.byClient
    if (place >= said.length && !ends) await fence()
    if (ends) socket.end()
  }

  async #pause(recordedMs: number): Promise<void> {
    const { pauses = 'none' } = this.#options
    if (pauses === 'none' || recordedMs <= 0) return
    await delay(recordedMs * pauses, undefined, { signal: this.#ended.signal }).catch(() => undefined)
  }
}

/** Starts a server that says what the recording says; it listens when this resolves. */
export const replayVerbatim = async (
  recording: Recording,
  options: VerbatimOptions = {},
): Promise<VerbatimRuntime> => {
  const runtime = new VerbatimRuntime(recording, options)
  await runtime.listen()
  return runtime
}
