import { once } from 'node:events'
import { type RawData, WebSocket } from 'ws'
import type {
  RecordedConnection,
  RecordedFrame,
  RecordedHttp,
  Recording,
} from '../../src/embedded-runtime/recording.ts'
import { isSnapshot, payloadOf } from '../../src/embedded-runtime/recording.ts'
import { fencePlace } from '../../src/embedded-runtime/replay-verbatim.ts'
import { startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'

/** What differs between two runs of the same thing: ids, times, paths, digests, the text of prompts. */
const volatile: readonly (readonly [RegExp, string])[] = [
  [/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<uuid>'],
  [/"(ts|timestamp_ms|\w+_at_ms)":\d+/g, '"$1":0'],
  [/\/srv\/agents\/demo[^"\\ :]*/g, '<path>'],
  [/"system_prompt":"(?:[^"\\]|\\.)*"/g, '"system_prompt":"<prompt>"'],
  [/"(digest|resolved_commit|resolved_tree|creation_ref|current_ref)":"[^"]*"/g, '"$1":"<digest>"'],
  [/"working_directory_id":"[^"]*"/g, '"working_directory_id":"<dir>"'],
  [/"(size_bytes|total_source_bytes)":\d+/g, '"$1":0'],
  [/ at line 1 column \d+/g, ' at line 1 column <n>'],
  [/sha256:[0-9a-f]{64}/g, 'sha256:<digest>'],
  [/"signature":"[^"]*"/g, '"signature":"<signature>"'],
  [/"context_tokens":\d+/g, '"context_tokens":0'],
  [/"tools":\[[^\]]*\]/g, '"tools":[]'],
  [/\(pid \d+\)/g, '(pid 1)'],
]

const normalise = (text: string): string =>
  volatile.reduce((out, [pattern, put]) => out.replace(pattern, put), text)

export interface WalkOptions {
  /** `off`: every recorded event is emitted by the walk; else the Runtime's own echoes must be the recorded ones. */
  readonly echo?: 'on' | 'off'
  readonly compaction?: 'on' | 'off'
  /** Compare of snapshots only what stands before their `data`; the reason. */
  readonly snapshotsByHead?: string
  /** The driver left frames out: those recorded must have come, in their order. */
  readonly framesLeftOut?: boolean
  /** Connections that are not made at all, with the reason. */
  readonly skip?: Readonly<Record<number, string>>
  /** Requests that are not made, found in `METHOD path body => status answer`, with the reason. */
  readonly skipHttp?: readonly { readonly asked: RegExp; readonly because: string }[]
  /** Before this connection: publish up to this position, the events that were not recorded as this worker's. */
  readonly before?: Readonly<Record<number, { readonly position: number; readonly workerId: string }>>
  /** The Runtime is restarted before these connections, where the recording shows no socket that ends. */
  readonly restartBefore?: readonly number[]
  /** Connections that the client dropped, though the recording does not say who did. */
  readonly drops?: readonly number[]
  /** A worker whose stored log is torn before the first restart. */
  readonly torn?: string
}

interface Difference {
  readonly where: string
  readonly recorded: string
  readonly got: string
}

interface Walked {
  readonly differences: readonly Difference[]
  readonly requests: number
  readonly connections: number
  readonly frames: number
  /** Snapshots compared whole; the others by their heads, because events before them were not recorded. */
  readonly wholeSnapshots: number
}

interface Peer {
  readonly recorded: RecordedConnection
  readonly socket: WebSocket
  readonly got: string[]
  closed: number | undefined
  /** Its snapshot is compared by its head: events before it were not recorded. */
  readonly byHead: boolean
  /** Frames that the backlog brings: they were emitted before. */
  backlog: number
}

const label = (frame: RecordedFrame): string => (frame.kind === 'pong' ? `pong ${frame.text}` : frame.text)

const positionOf = (frame: string): number => {
  const match = /"cursor":"wo_([0-9a-f]{16})","event_id":"wo_/.exec(frame)
  return match ? Number.parseInt(match[1] ?? '0', 16) : 0
}

const decodeId = (path: string): string =>
  decodeURIComponent(/^\/v1\/workers\/([^/?]+)/.exec(path)?.[1] ?? '')

/**
 * Does to an embedded Runtime what the driver of a recording did to the real one, line by line, emits the
 * events that the real workers emitted, and compares every answer and every frame of every connection.
 */
export const walk = async (recording: Recording, options: WalkOptions = {}): Promise<Walked> => {
  const { generation } = recording
  const differences: Difference[] = []
  const memory = recording.http.some(line => line.text.includes('"backend":"memory"'))
  await using runtime = await startEmbeddedRuntime({
    generation,
    token: 'demo-token',
    store: memory ? 'none' : 'memory-store',
    workerDefaults: { echo: options.echo ?? 'on', compaction: options.compaction ?? 'on' },
  })
  const peers = new Map<number, Peer>()
  const published = new Map<string, string[]>()
  const watched = new WeakSet<EmbeddedWorker>()
  let requests = 0
  let frames = 0
  let wholeSnapshots = 0
  let incomplete = false
  const known = knownEvents(recording)

  const differ = (where: string, recorded: string, got: string): void => {
    if (recorded !== got) differences.push({ where, recorded, got })
  }

  /** Notes what workers publish by themselves, so that the walk does not emit it again. */
  const watch = (): void => {
    for (const worker of runtime.workers.values()) {
      if (watched.has(worker)) continue
      watched.add(worker)
      const emit = worker.say.bind(worker)
      worker.say = event => {
        if (options.echo === 'off') return
        const list = published.get(worker.id) ?? []
        list.push(JSON.stringify(event))
        published.set(worker.id, list)
        emit(event)
      }
    }
  }

  const ask = async (line: RecordedHttp): Promise<void> => {
    const asked = `${line.method} ${line.path} ${line.request ?? ''} => ${line.status} ${line.text}`
    if (options.skipHttp?.some(rule => rule.asked.test(asked))) {
      if (line.method === 'POST' && line.path === '/v1/workers' && line.status === 409) runtime.failCreate()
      return
    }
    const body = line.request?.replace('["<the bytes of the tar, as numbers>"]', '[]')
    const response = await fetch(runtime.url + line.path, {
      method: line.method,
      headers: {
        ...(line.authorization === undefined ? {} : { authorization: line.authorization }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body }),
    })
    const text = await response.text()
    watch()
    if (options.skipHttp?.some(rule => rule.asked.test(`${line.method} ${line.path} ${line.request ?? ''}`)))
      return
    requests += 1
    const where = `${recording.name}:${line.line + 1} ${line.method} ${line.path} ${line.request?.slice(0, 80) ?? ''}`
    const shown = (status: number, type: string, allow: string, answer: string): string =>
      `${status} ${type} ${allow} ${normalise(answer)}`
    differ(
      where,
      shown(line.status, line.headers['content-type'] ?? '', line.headers.allow ?? '', line.text),
      shown(
        response.status,
        response.headers.get('content-type') ?? '',
        response.headers.get('allow') ?? '',
        text,
      ),
    )
  }

  const restart = async (): Promise<void> => {
    const torn = runtime.workers.get(options.torn ?? '')
    if (torn) torn.torn = true
    await runtime.restart()
    published.clear()
  }

  const owed = (workerId: string): number => published.get(workerId)?.length ?? 0

  /** Publishes what the real Runtime had published: recorded events as they were, others as stand-ins. */
  const publishUpTo = (position: number, workerId: string): void => {
    while (runtime.log.next <= position) {
      const event = known.get(runtime.log.next)
      const worker = runtime.workers.get(event?.workerId ?? workerId)
      if (!worker) return
      if (event) worker.emitJson(event.payload)
      else {
        incomplete = true
        worker.emit({ event: 'unrecorded' })
      }
    }
  }

  /** What a connection gets at once was published before it was made. */
  const catchUp = (recorded: RecordedConnection): void => {
    const before = options.before?.[recorded.conn]
    if (before) publishUpTo(before.position, before.workerId)
    if (generation !== 'events-ws' || recorded.route !== 'events') return
    const texts = recorded.frames.filter(frame => frame.fromRuntime && frame.kind === 'text')
    const snapshot = /"event_id":"snapshot:wo_([0-9a-f]{16})"/.exec(texts[0]?.text ?? '')?.[1]
    if (!recorded.query.includes('cursor='))
      publishUpTo(Number.parseInt(snapshot ?? '0', 16), recorded.workerId)
    else {
      for (const frame of texts.slice(0, fencePlace(recording, recorded))) {
        publishUpTo(positionOf(frame.text), recorded.workerId)
      }
    }
  }

  const open = async (recorded: RecordedConnection): Promise<void> => {
    const { path, query, authorization } = recorded
    if (options.skip?.[recorded.conn] !== undefined) return
    if (options.restartBefore?.includes(recorded.conn)) await restart()
    catchUp(recorded)
    const url = `${runtime.url.replace('http', 'ws')}${path}${query === '' ? '' : `?${query}`}`
    const socket = new WebSocket(url, { headers: authorization === undefined ? {} : { authorization } })
    const peer: Peer = {
      recorded,
      socket,
      got: [],
      closed: undefined,
      byHead: incomplete || options.snapshotsByHead !== undefined,
      backlog: 0,
    }
    const where = `${recording.name} connection ${recorded.conn}`
    socket.on('message', (data: RawData, binary: boolean) => {
      peer.got.push(binary ? `binary ${String(data)}` : String(data))
    })
    socket.on('pong', data => peer.got.push(`pong ${String(data)}`))
    socket.on('close', code => {
      peer.closed = code
    })
    socket.on('error', () => undefined)
    peers.set(recorded.conn, peer)
    const refused = new Promise<void>(resolve => {
      socket.on('unexpected-response', (request, response) => {
        let text = ''
        response.on('data', part => {
          text += String(part)
        })
        response.on('end', () => {
          const recordedAnswer = recorded.refused
            ? `${recorded.refused.status} ${normalise(recorded.refused.text)}`
            : '101'
          differ(where, recordedAnswer, `${response.statusCode} ${normalise(text)}`)
          request.destroy()
          resolve()
        })
      })
    })
    await Promise.race([once(socket, 'open'), refused])
    if (socket.readyState === WebSocket.OPEN && recorded.refused)
      differ(where, `${recorded.refused.status}`, '101')
    const worker = runtime.workers.get(decodeId(path))
    const asked = /cursor=wo_([0-9a-f]{16})/.exec(query)?.[1]
    if (worker && asked !== undefined && generation === 'protocol-ws') {
      const position = BigInt(`0x${asked}`)
      if (position < BigInt(runtime.log.next)) peer.backlog = runtime.log.after(worker.id, position).length
    }
  }

  /** The oldest open connection of a worker: what it hears live is what the worker publishes. */
  const leads = (peer: Peer): boolean => {
    for (const other of peers.values()) {
      if (other.recorded.workerId !== peer.recorded.workerId || other.recorded.route !== peer.recorded.route)
        continue
      if (other.closed === undefined) return other === peer
    }
    return false
  }

  const emitRecorded = (worker: EmbeddedWorker, payload: string, where: string): void => {
    const own = published.get(worker.id) ?? []
    const said = own.shift()
    if (said === undefined) {
      worker.emitJson(payload)
      return
    }
    differ(`${where}: said by the worker itself`, normalise(payload), normalise(said))
  }

  const hear = (peer: Peer, frame: RecordedFrame): void => {
    const where = `${recording.name}:${frame.line + 1}`
    const payload = frame.kind === 'text' ? payloadOf(frame.text) : undefined
    const worker = runtime.workers.get(peer.recorded.workerId)
    if (payload === undefined || isSnapshot(payload) || !worker) return
    if (generation === 'events-ws') {
      const position = positionOf(frame.text)
      if (position < runtime.log.next - owed(worker.id)) return
      if (owed(worker.id) === 0) publishUpTo(position - 1, worker.id)
      if (peer.recorded.route === 'events') emitRecorded(worker, payload, where)
      return
    }
    if (peer.backlog > 0) {
      peer.backlog -= 1
      return
    }
    if (leads(peer) && !isAnswer(payload)) emitRecorded(worker, payload, where)
  }

  const settle = async (peer: Peer, wanted: number): Promise<void> => {
    const deadline = Date.now() + 1_000
    while (peer.got.length < wanted && peer.closed === undefined && Date.now() < deadline) {
      await new Promise(resolve => setImmediate(resolve))
    }
  }

  const compare = async (peer: Peer): Promise<void> => {
    const { recorded } = peer
    if (recorded.refused) return
    if (!peer.byHead && recorded.frames.some(frame => isSnapshot(payloadOf(frame.text) ?? '')))
      wholeSnapshots += 1
    const wanted = recorded.frames.filter(frame => frame.fromRuntime && frame.kind !== 'ping')
    await settle(peer, wanted.length)
    const shown = (text: string): string => {
      const payload = payloadOf(text)
      if (payload !== undefined && isSnapshot(payload) && peer.byHead) {
        return normalise(text.slice(0, text.indexOf('"data":')))
      }
      return normalise(text)
    }
    const where = `${recording.name} connection ${recorded.conn}`
    if (options.framesLeftOut) {
      let at = 0
      for (const frame of wanted) {
        frames += 1
        const found = peer.got.findIndex((text, index) => index >= at && shown(text) === shown(label(frame)))
        if (found < 0) differ(`${where} after frame ${at}`, shown(label(frame)), '<not found>')
        else at = found + 1
      }
      return
    }
    differ(`${where} frames`, String(wanted.length), String(peer.got.length))
    wanted.forEach((frame, index) => {
      frames += 1
      differ(`${where} frame ${index}`, shown(label(frame)), shown(peer.got[index] ?? '<nothing>'))
    })
  }

  const end = async (peer: Peer): Promise<void> => {
    const { recorded, socket } = peer
    const byRuntime =
      recorded.close !== undefined &&
      !recorded.close.byClient &&
      options.drops?.includes(recorded.conn) !== true
    const killed =
      byRuntime && !/"kind":"diagnostic"|"event":"error"/.test(recorded.frames.at(-1)?.text ?? '')
    await settle(peer, recorded.frames.filter(frame => frame.fromRuntime && frame.kind !== 'ping').length)
    if (killed && peer.closed === undefined) {
      await restart()
    }
    if (peer.closed === undefined) {
      if (!byRuntime) socket.close()
      await once(socket, 'close', { signal: AbortSignal.timeout(5_000) })
    }
    differ(
      `${recording.name} connection ${recorded.conn} closes`,
      String(recorded.close?.code),
      String(peer.closed),
    )
    await compare(peer)
  }

  const say = async (peer: Peer, frame: RecordedFrame): Promise<void> => {
    const before = runtime.traffic.methods
    if (frame.kind === 'ping') peer.socket.ping(frame.text)
    else if (frame.kind === 'pong') peer.socket.pong(frame.text)
    else if (frame.kind === 'binary') peer.socket.send(Buffer.from(frame.text, 'base64'), { binary: true })
    else {
      peer.socket.send(frame.text)
      if (peer.recorded.route === 'protocol')
        await runtime.traffic.until(() => runtime.traffic.methods > before)
      watch()
    }
  }

  interface Happening {
    readonly line: number
    readonly run: () => Promise<void> | void
  }
  const happenings: Happening[] = recording.http.map(line => ({ line: line.line, run: () => ask(line) }))
  for (const connection of recording.connections) {
    happenings.push({ line: connection.openLine, run: () => open(connection) })
    for (const frame of connection.frames) {
      happenings.push({
        line: frame.line,
        run: () => {
          const peer = peers.get(connection.conn)
          if (!peer) return
          return frame.fromRuntime ? hear(peer, frame) : say(peer, frame)
        },
      })
    }
    const { close } = connection
    if (close) {
      happenings.push({
        line: close.line,
        run: () => {
          const peer = peers.get(connection.conn)
          return peer ? end(peer) : undefined
        },
      })
    }
  }
  happenings.sort((a, b) => a.line - b.line)
  for (const { run } of happenings) {
    await run()
    await new Promise(resolve => setImmediate(resolve))
  }
  for (const peer of peers.values()) if (!peer.recorded.close && !peer.recorded.refused) await compare(peer)
  for (const peer of peers.values()) peer.socket.terminate()
  return { differences, requests, connections: peers.size, frames, wholeSnapshots }
}

/** What a protocol method is answered with on its own connection; no event of the worker. */
const isAnswer = (payload: string): boolean =>
  payload.startsWith('{"event":"completions"') ||
  payload.includes('malformed protocol method frame') ||
  payload.includes('malformed worker observation cursor') ||
  payload.includes('execution ProtocolMethod returned')

/** The events of the first generation by their position, as far as any connection heard them once. */
const knownEvents = (
  recording: Recording,
): ReadonlyMap<number, { readonly workerId: string; readonly payload: string }> => {
  const known = new Map<number, { workerId: string; payload: string }>()
  const ambiguous = new Set<number>()
  for (const connection of recording.connections) {
    for (const frame of connection.frames) {
      const position = positionOf(frame.text)
      const payload = payloadOf(frame.text)
      if (position === 0 || payload === undefined) continue
      const before = known.get(position)
      if (before && before.payload !== payload) ambiguous.add(position)
      known.set(position, { workerId: connection.workerId, payload })
    }
  }
  for (const position of ambiguous) known.delete(position)
  return known
}
