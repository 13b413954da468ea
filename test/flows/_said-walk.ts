import {
  isSnapshot,
  payloadOf,
  type RecordedConnection,
  type Recording,
  recordedWorkers,
} from '../../src/embedded-runtime/recording.ts'
import { type Comparison, compareSaid } from '../../src/journal/continuity/compare-said.ts'
import { type Said, say } from '../../src/journal/continuity/said.ts'
import { type SaidList, saidOfList } from '../../src/journal/continuity/said-list.ts'
import { createMac } from '../../src/journal/continuity/utterance.ts'
import { asSeq } from '../../src/journal/entry.ts'
import { expandList } from '../../src/journal/expand.ts'
import { replacesList } from '../../src/journal/step.ts'
import { asArray, asRecord, asText, type Json, parseJson } from '../../src/lib/json.ts'

export const mac = createMac(Buffer.from('recordings'))

export interface Happening {
  readonly line: number
  readonly conn: number
  readonly cursor: string
  readonly eventId: string
  readonly event: string
  readonly data: Json
  readonly payload: string
}

/** A moment at which a fresh snapshot could be held against what was told live. */
export interface IdlePoint {
  readonly recording: string
  readonly worker: string
  /** The connection whose first snapshot we began from, and the one whose snapshot was compared. */
  readonly from: number
  readonly to: number
  /** Whether what we began from was in the middle of a run. */
  readonly begunRunning: boolean
  readonly comparison: Comparison
}

const text = (pattern: RegExp, frame: string): string => pattern.exec(frame)?.[1] ?? ''

const read = new WeakMap<RecordedConnection, readonly Happening[]>()

export function happeningsOf(connection: RecordedConnection): readonly Happening[] {
  const known = read.get(connection) ?? readHappenings(connection)
  read.set(connection, known)
  return known
}

function readHappenings(connection: RecordedConnection): Happening[] {
  return connection.frames.flatMap(frame => {
    const payload = frame.fromRuntime && frame.kind === 'text' ? payloadOf(frame.text) : undefined
    if (payload === undefined) return []
    const parsed = asRecord(parseJson(payload))
    return [
      {
        line: frame.line,
        conn: connection.conn,
        cursor: text(/"cursor":"([^"]*)"/, frame.text.slice(0, 200)),
        eventId: text(/"event_id":"([^"]*)"/, frame.text.slice(0, 200)),
        event: asText(parsed.event),
        data: asRecord(parsed.data),
        payload,
      },
    ]
  })
}

export const listOf = (event: string, data: Json): SaidList =>
  saidOfList(expandList(event, data, asSeq(1), { status: null }).list, mac)

/** Connections of a worker that began with a snapshot of its own and were not refused. */
function connectionsOf(recording: Recording, worker: string): RecordedConnection[] {
  const route = recording.generation === 'events-ws' ? 'events' : 'protocol'
  return recording.connections.filter(connection => {
    if (connection.route !== route || connection.workerId !== worker) return false
    const [first] = happeningsOf(connection)
    const refused = connection.frames.some(frame => frame.text.startsWith('{"kind":"diagnostic"'))
    return (
      first?.event === 'snapshot' && !refused && asRecord(first.data.greeting).provider !== 'worker-runtime'
    )
  })
}

/** The second telling of an input in a run (R47), as simply as it can be known. */
function doubledFilter(): (event: string, data: Json) => boolean {
  const seen = new Map<string, number>()
  return (event, data) => {
    if (event === 'run_end' || (event === 'status' && data.status !== 'running')) seen.clear()
    if (event !== 'user_message') return false
    const key = JSON.stringify(data.segments)
    const count = seen.get(key) ?? 0
    seen.set(key, count + 1)
    return count === 1
  }
}

/** Finished last blocks of `in_flight`: their `…_done` may come again (R21). */
function finishedInFlight(data: Json): Set<string> {
  const blocks = asArray(asRecord(data.in_flight).blocks).map(asRecord)
  return new Set(blocks.filter(b => b.finished === true).map(b => `${asText(b.kind)}_done ${asText(b.text)}`))
}

export const replay = (said: Said, events: readonly { event: string; data: Json }[]): void => {
  for (const { event, data } of events) say(said, event, data, mac)
}

/** Every idle point of a recording, from every fresh connection on. */
export function idlePoints(recording: Recording): IdlePoint[] {
  return recordedWorkers(recording).flatMap(worker => {
    const all = connectionsOf(recording, worker)
    return all.flatMap((from, i) =>
      // Begun as Shoji begins: without a cursor.
      from.query === '' ? pointsFrom(recording, worker, from, all.slice(i + 1)) : [],
    )
  })
}

function pointsFrom(
  recording: Recording,
  worker: string,
  from: RecordedConnection,
  later: readonly RecordedConnection[],
): IdlePoint[] {
  const [first] = happeningsOf(from)
  if (first === undefined) return []
  const numbered = recording.generation === 'events-ws'
  const others = numbered
    ? recording.connections.filter(c => c.route === 'events' && c.workerId === worker)
    : [from]
  const heard = others
    .flatMap(happeningsOf)
    .filter(h => h.line > first.line && h.event !== 'snapshot')
    .sort((a, b) => a.line - b.line)
  const snapshots = later.map(c => happeningsOf(c)[0]!)
  const backlogs = new Map(later.map(c => [c.conn, backlogOf(c)]))
  const points: IdlePoint[] = []
  const state = { said: listOf('snapshot', first.data).said, status: first.data.status, cursor: first.cursor }
  const begunRunning = first.data.status === 'running'
  const repeated = finishedInFlight(first.data)
  const doubled = doubledFilter()
  const ids = new Map<string, string>()
  const timeline = [...heard, ...snapshots].sort((a, b) => a.line - b.line)
  for (const happening of timeline) {
    const { event, data, eventId, cursor, payload, conn, line } = happening
    if (event === 'snapshot' && isSnapshot(payload)) {
      // Events that nobody heard lie between: what follows cannot be compared.
      const asked = later.find(c => c.conn === conn)!.query !== ''
      if (numbered && !asked && cursor > state.cursor) break
      if (numbered && backlogs.get(conn)!.some(id => !ids.has(id) && id > first.cursor)) continue
      if (!numbered && missedInput(recording, worker, from, line)) break
      if (data.status !== 'idle' || state.status === 'running') continue
      points.push({
        recording: recording.name,
        worker,
        from: from.conn,
        to: conn,
        begunRunning,
        comparison: compareSaid(state.said, listOf('snapshot', data), mac),
      })
      continue
    }
    if (numbered) {
      const known = ids.get(eventId)
      // The same number for something else: another life of the Runtime (R39, R40).
      if (known !== undefined && known !== payload) break
      if (known !== undefined || cursor <= first.cursor) continue
      ids.set(eventId, payload)
      state.cursor = cursor
    } else if (doubled(event, data)) continue
    if (repeated.delete(`${event} ${asText(data.text)}`)) continue
    if (event === 'status') state.status = data.status
    if (replacesList(event, data)) state.said = listOf(event, data).said
    else say(state.said, event, data, mac)
  }
  return points
}

/** What came so soon after the snapshot that it was told before it. */
function backlogOf(connection: RecordedConnection): string[] {
  const [snapshot] = connection.frames.filter(frame => frame.fromRuntime && frame.kind === 'text')
  const soon = (line: number): boolean => {
    const frame = connection.frames.find(f => f.line === line)
    return frame !== undefined && snapshot !== undefined && frame.atMs - snapshot.atMs < 10
  }
  return happeningsOf(connection)
    .slice(1)
    .filter(({ line }) => soon(line))
    .map(({ eventId }) => eventId)
}

/** Whether the worker was given something to do after our connection had ended. */
function missedInput(recording: Recording, worker: string, from: RecordedConnection, line: number): boolean {
  const end = from.close?.line ?? Number.POSITIVE_INFINITY
  return recording.http.some(
    h => h.method === 'POST' && h.path.includes(`/${worker}/`) && h.line > end && h.line < line,
  )
}
