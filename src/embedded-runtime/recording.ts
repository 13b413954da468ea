import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import type { Generation } from './events.ts'
import { isObject, type Json, type JsonObject, objectAt, parseJson, textAt } from './json.ts'

/** One recorded frame, relative to the start of its file. */
export interface RecordedFrame {
  readonly atMs: number
  readonly fromRuntime: boolean
  readonly kind: 'text' | 'binary' | 'ping' | 'pong'
  /** The text as it came; a binary frame's bytes in base64. */
  readonly text: string
  /** Its place among all lines of the file. */
  readonly line: number
}

export interface RecordedHttp {
  readonly atMs: number
  readonly method: string
  /** With its query, as it was asked. */
  readonly path: string
  readonly authorization: string | undefined
  readonly request: string | undefined
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  readonly line: number
}

export interface RecordedConnection {
  readonly conn: number
  readonly path: string
  readonly query: string
  readonly authorization: string | undefined
  /** Decimal or UUID as in the path, decoded; empty for the Runtime-wide socket. */
  readonly workerId: string
  readonly route: 'events' | 'protocol' | 'other'
  readonly openLine: number
  /** The answer to an upgrade that was refused. */
  readonly refused: RecordedHttp | undefined
  readonly frames: readonly RecordedFrame[]
  readonly close:
    | { readonly code: number; readonly byClient: boolean; readonly atMs: number; readonly line: number }
    | undefined
}

export interface Recording {
  readonly name: string
  readonly generation: Generation
  readonly http: readonly RecordedHttp[]
  readonly connections: readonly RecordedConnection[]
  readonly notes: readonly { readonly atMs: number; readonly text: string; readonly line: number }[]
}

const numberAt = (line: JsonObject, key: string): number => {
  const found = line[key]
  return typeof found === 'number' ? found : 0
}

const optionalText = (line: JsonObject, key: string): string | undefined => {
  const found = line[key]
  return typeof found === 'string' ? found : undefined
}

const headersOf = (line: JsonObject): Record<string, string> =>
  Object.fromEntries(Object.entries(objectAt(line, 'headers')).map(([name, value]) => [name, String(value)]))

const httpOf = (line: JsonObject, index: number): RecordedHttp => ({
  atMs: numberAt(line, 't_ms'),
  method: textAt(line, 'method'),
  path: textAt(line, 'path'),
  authorization: optionalText(line, 'authorization'),
  request: optionalText(line, 'request'),
  status: numberAt(line, 'status'),
  headers: headersOf(line),
  text: textAt(line, 'text'),
  line: index,
})

const frameOf = (line: JsonObject, index: number): RecordedFrame => {
  const op = textAt(line, 'op')
  const binary = optionalText(line, 'binary')
  const kind = op === 'ping' || op === 'pong' ? op : binary === undefined ? 'text' : 'binary'
  return {
    atMs: numberAt(line, 't_ms'),
    fromRuntime: line.dir === 'in',
    kind,
    text: binary ?? textAt(line, 'text'),
    line: index,
  }
}

interface OpenConnection {
  readonly conn: number
  readonly path: string
  readonly authorization: string | undefined
  readonly openLine: number
  refused: RecordedHttp | undefined
  readonly frames: RecordedFrame[]
  close: RecordedConnection['close']
}

const finish = (open: OpenConnection): RecordedConnection => {
  const [path = '', query = ''] = open.path.split('?', 2)
  const match = /^\/v1\/workers\/([^/]+)\/(events|protocol)\/ws$/.exec(path)
  const route = match?.[2] === 'events' ? 'events' : path.endsWith('/protocol/ws') ? 'protocol' : 'other'
  return { ...open, path, query, route, workerId: decodeURIComponent(match?.[1] ?? '') }
}

/** Parses the NDJSON of a recording. Throws on a line that is none. */
export const parseRecording = (name: string, ndjson: string): Recording => {
  const http: RecordedHttp[] = []
  const notes: { atMs: number; text: string; line: number }[] = []
  const open = new Map<number, OpenConnection>()
  ndjson.split('\n').forEach((text, index) => {
    if (text === '') return
    const line: Json | undefined = parseJson(text)
    if (!isObject(line)) throw new SyntaxError(`${name}:${index + 1} is no recorded line`)
    const conn = numberAt(line, 'conn')
    const kind = textAt(line, 'kind')
    const connection = open.get(conn)
    if (kind === 'note') notes.push({ atMs: numberAt(line, 't_ms'), text: textAt(line, 'text'), line: index })
    else if (kind === 'http' && conn === 0) http.push(httpOf(line, index))
    else if (kind === 'http' && connection) connection.refused = httpOf(line, index)
    else if (kind === 'open' && line.dir === 'out') {
      open.set(conn, {
        conn,
        path: textAt(line, 'path'),
        authorization: optionalText(line, 'authorization'),
        openLine: index,
        refused: undefined,
        frames: [],
        close: undefined,
      })
    } else if (kind === 'frame') connection?.frames.push(frameOf(line, index))
    else if (kind === 'close' && connection) {
      connection.close = {
        code: numberAt(line, 'code'),
        byClient: line.by === 'client',
        atMs: numberAt(line, 't_ms'),
        line: index,
      }
    }
  })
  return {
    name,
    generation: name.startsWith('later-') ? 'protocol-ws' : 'events-ws',
    http,
    notes,
    connections: [...open.values()].map(finish),
  }
}

const extensions = ['.ndjson.gz', '.ndjson']

/** The names of all recordings in a directory, sorted. */
export const recordingNames = async (directory: string): Promise<string[]> => {
  const names = (await readdir(directory)).flatMap(file => {
    const extension = extensions.find(end => file.endsWith(end))
    return extension === undefined ? [] : [file.slice(0, -extension.length)]
  })
  return [...new Set(names)].sort()
}

/** Reads `<name>.ndjson.gz` or `<name>.ndjson`. Rejects if neither exists. */
export const loadRecording = async (directory: string, name: string): Promise<Recording> => {
  const compressed = await readFile(join(directory, `${name}.ndjson.gz`)).catch(() => undefined)
  const bytes = compressed ? gunzipSync(compressed) : await readFile(join(directory, `${name}.ndjson`))
  return parseRecording(name, bytes.toString('utf8'))
}

const payloadMark = '"payload":'

/** The payload text of an event frame, byte for byte; `undefined` for a diagnostic or what is no frame. */
export const payloadOf = (frame: string): string | undefined => {
  if (frame.startsWith('{"event":')) return frame
  const at = frame.indexOf(payloadMark)
  return frame.startsWith('{"kind":"event"') && at > 0 ? frame.slice(at + payloadMark.length, -2) : undefined
}

export const isSnapshot = (payload: string): boolean => payload.startsWith('{"event":"snapshot"')

export interface LiveEvent {
  /** Since the first of them. */
  readonly atMs: number
  readonly workerId: string
  /** The payload as it came. */
  readonly json: string
}

const eventIdOf = (frame: string): string => /"event_id":"([^"]*)"/.exec(frame)?.[1] ?? ''

const textFrames = (connection: RecordedConnection): RecordedFrame[] =>
  connection.frames.filter(frame => frame.fromRuntime && frame.kind === 'text')

const firstGenerationEvents = (
  connections: readonly RecordedConnection[],
): (LiveEvent & { id: string })[] => {
  const seen = new Map<string, LiveEvent & { id: string }>()
  for (const connection of connections) {
    for (const frame of textFrames(connection)) {
      const json = payloadOf(frame.text)
      if (json === undefined || isSnapshot(json)) continue
      const id = eventIdOf(frame.text)
      const key = `${id} ${json}`
      if (!seen.has(key)) seen.set(key, { id, json, atMs: frame.atMs, workerId: connection.workerId })
    }
  }
  return [...seen.values()].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : a.atMs - b.atMs))
}

const laterEvents = (connections: readonly RecordedConnection[]): LiveEvent[] => {
  const [longest] = [...connections].sort((a, b) => b.frames.length - a.frames.length)
  if (!longest) return []
  return textFrames(longest).flatMap(frame => {
    const json = payloadOf(frame.text)
    return json === undefined || isSnapshot(json)
      ? []
      : [{ json, atMs: frame.atMs, workerId: longest.workerId }]
  })
}

/** The workers that a recording has observation connections of, in the order of their first. */
export const recordedWorkers = (recording: Recording): string[] => {
  const route = recording.generation === 'events-ws' ? 'events' : 'protocol'
  const observed = recording.connections.filter(
    connection =>
      connection.route === route && connection.workerId !== '' && textFrames(connection).length > 0,
  )
  return [...new Set(observed.map(connection => connection.workerId))]
}

/**
 * The events a recorded worker published, each once: by event id in the first generation, by its longest
 * connection in the later one, where nothing names an event. All workers together without `workerId`.
 */
export const liveEvents = (recording: Recording, workerId?: string): LiveEvent[] => {
  const first = recording.generation === 'events-ws'
  const of = (id: string | undefined): LiveEvent[] => {
    const connections = recording.connections.filter(
      connection =>
        connection.route === (first ? 'events' : 'protocol') &&
        (id === undefined || connection.workerId === id),
    )
    return first ? firstGenerationEvents(connections) : laterEvents(connections)
  }
  const events =
    first || workerId !== undefined
      ? of(workerId)
      : recordedWorkers(recording)
          .flatMap(of)
          .sort((a, b) => a.atMs - b.atMs)
  const start = events[0]?.atMs ?? 0
  return events.map(({ atMs, json, workerId: id }) => ({
    atMs: Math.max(0, atMs - start),
    json,
    workerId: id,
  }))
}
