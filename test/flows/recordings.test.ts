import { eventSchemas, type Frame, frameSchemas, type Item, type WorkerState } from '@shoji/web-contract'
import { describe, expect, it } from 'vitest'
import {
  loadRecording,
  payloadOf,
  type RecordedConnection,
  recordingNames,
} from '../../src/embedded-runtime/recording.ts'
import { replayVerbatim } from '../../src/embedded-runtime/replay-verbatim.ts'
import { startShoji, TOKENS } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'

/**
 * Every recorded connection that began with a real snapshot, through real sockets: what a viewer with
 * everything granted is shown first says what the recorded snapshot says, and no frame of the connection is
 * refused or unknown.
 */
const directory = new URL('../recordings/', import.meta.url).pathname
const names = await recordingNames(directory)

// biome-ignore lint/suspicious/noExplicitAny: recorded JSON, looked at by an oracle of its own
type Recorded = any

interface Case {
  readonly connection: RecordedConnection
  readonly snapshot: Recorded
  /** Different events among its frames. */
  readonly events: number
}

function casesOf(connections: readonly RecordedConnection[]): Case[] {
  return connections.flatMap(connection => {
    const texts = connection.frames.filter(f => f.fromRuntime && f.kind === 'text').map(f => f.text)
    const payloads = texts.map(payloadOf).filter(p => p !== undefined)
    const first = payloads[0] === undefined ? undefined : JSON.parse(payloads[0])
    // A refused cursor shows a snapshot and then its diagnostic; Shoji sends no cursor, and believes neither.
    const refused = texts[1]?.includes('"kind":"diagnostic"') || texts[1]?.startsWith('{"event":"error"')
    if (connection.refused !== undefined || first?.event !== 'snapshot' || refused) return []
    if (first.data.greeting?.provider === 'worker-runtime') return []
    // Killed before it could answer a ping: no fence, so nothing of it may be believed.
    if (connection.close?.byClient === false && texts.length === 1) return []
    // Odd spellings of an id; Shoji takes ids from the listing alone.
    if (/^0\d+$|%/.test(connection.path.split('/')[3] ?? '')) return []
    const ids = texts.map(t => JSON.parse(t).envelope?.event_id ?? Symbol('minted'))
    return [{ connection, snapshot: first.data, events: new Set(ids.slice(0, payloads.length)).size }]
  })
}

describe.each(names)('%s', name => {
  it('is shown as its snapshots say, with no frame refused or unknown', async () => {
    const recording = await loadRecording(directory, name)
    const cases = casesOf(recording.connections)
    if (cases.length === 0) return expect(withoutSnapshots).toContain(name)
    const runtimes = await Promise.all(
      cases.map(({ connection }) =>
        replayVerbatim(recording, { connection: connection.conn, listing: 'synthesised', pingWaitMs: 5_000 }),
      ),
    )
    const watching = deferred()
    await using shoji = await startShoji({
      runtimes: runtimes.map(({ url }, i) => ({ id: `c${i}`, url, token: 'demo-token' })),
      extra: 'limits: { streams_per_user: 500 }',
      overrides: { sourcesAfter: watching.promise },
    })
    const streams = await Promise.all(
      cases.map((_, i) =>
        TestStream.open(`${shoji.url}/api/runtimes/c${i}/events`, {
          token: TOKENS.admin,
          query: { history: '1000' },
        }),
      ),
    )
    for (const stream of streams) await stream.untilLive()
    watching.resolve()
    for (const [i, { connection, snapshot }] of cases.entries()) {
      const worker = connection.workerId
      await want(shoji.url, `c${i}`, worker)
      const stream = streams[i]!
      await stream.until(
        s => s.frames.some(f => isSnapshotOf(f, worker)),
        `snapshot of connection ${connection.conn}`,
      )
      const first = stream.frames.find(f => isSnapshotOf(f, worker)) as Extract<Frame, { event: 'snapshot' }>
      expect(said(first.data.state), `connection ${connection.conn}`).toEqual(expected(snapshot))
    }
    const events = cases.reduce((sum, c) => sum + c.events, 0)
    for (let i = 0; i < 200 && (await shoji.service.stats()).entries < events; i++)
      await new Promise(r => setTimeout(r, 25))
    const stats = await shoji.service.stats()
    expect(stats.entries).toBeGreaterThanOrEqual(events)
    expect(stats.quarantined).toBe(0)
    for (const stream of streams) {
      stream.cut()
      for (const frame of stream.frames) checkFrame(frame)
    }
    await Promise.all(runtimes.map(r => r.close()))
  })
})

/** Recordings in which no observation connection began with a real snapshot. */
const withoutSnapshots = ['auth-and-routes', 'later-rest', 'slow-reader-queue']

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => {}
  const promise = new Promise<void>(done => {
    resolve = done
  })
  return { promise, resolve }
}

const isSnapshotOf = (frame: Frame, worker: string): boolean =>
  frame.event === 'snapshot' && frame.data.worker === worker

async function want(url: string, runtime: string, worker: string): Promise<void> {
  for (let i = 0; i < 100; i++) {
    const stream = await TestStream.open(`${url}/api/runtimes/${runtime}/workers/${worker}/events`, {
      token: TOKENS.admin,
    }).catch(() => null)
    if (stream !== null) return stream.cut()
    await new Promise(r => setTimeout(r, 20))
  }
}

function checkFrame(frame: Frame): void {
  expect(frameSchemas[frame.event]?.safeParse(frame.data).error?.issues ?? []).toEqual([])
  if (frame.event !== 'envelope') return
  let { event, data } = frame.data as { event: string; data: Recorded }
  expect(Object.keys(eventSchemas), event).toContain(event)
  expect(eventSchemas[event as keyof typeof eventSchemas].safeParse(data).error?.issues ?? [], event).toEqual(
    [],
  )
  for (; event === 'internal_worker'; { event, data } = data.event)
    expect(Object.keys(eventSchemas)).toContain(data.event.event)
}

// ── what a state says, and what a recorded snapshot says, in the same words ───────────────────────────────

const said = (state: WorkerState) => ({
  status: state.status,
  greeting: state.greeting,
  items: state.items.map(tellItem),
  open: state.open.blocks.map(b => b.kind),
  calls: state.open.calls.map(c => c.call).sort(),
  internal: state.internal_workers.map(w => [w.session_id, w.name, w.status]),
})

function tellItem(item: Item): unknown[] {
  const of = item.internal === undefined ? [] : [item.internal]
  switch (item.kind) {
    case 'user_message':
      return [...of, 'user', ...item.segments.map(s => s.content ?? s.path ?? s.kind)]
    case 'text':
    case 'thinking':
    case 'system_prompt':
      return [...of, item.kind, cutAs(item, item.text)]
    case 'tool_call':
      return [
        ...of,
        'call',
        item.call,
        item.name,
        item.arguments,
        item.result?.summary,
        cutAs(item, item.result?.output),
        item.result?.is_error,
      ]
    case 'system':
      return [...of, 'system', item.item.kind, cutAs(item, (item.item.body ?? item.item.content) as string)]
    case 'error':
      return [...of, 'error', item.message]
    default:
      return [...of, item.kind]
  }
}

/** A long text is known by its beginning and its whole length. */
const cutAs = (item: Item, text: string | undefined): unknown => {
  const cut = item.cut?.[0]
  return cut === undefined ? text : brief(text!, cut.chars)
}
const brief = (text: string, chars: number): string => `${text.slice(0, 1_000)}… ${chars}`
const whole = (text: string | undefined): unknown =>
  text !== undefined && text.length > 65_536 ? brief(text, text.length) : text

function expected(snapshot: Recorded) {
  const own = tellList(snapshot, [])
  const internal = (snapshot.internal_workers ?? []).map((w: Recorded) => {
    const told = tellList(w, [w.worker.session_id])
    const flying = inFlight(w).items.map(item => [w.worker.session_id, ...item])
    return [w, { ...told, items: [...told.items, ...flying] }]
  })
  const flight = inFlight(snapshot)
  return {
    status: snapshot.status,
    greeting: snapshot.greeting,
    items: [...own.items, ...internal.flatMap(([, told]: Recorded) => told.items), ...flight.items],
    open: [...internal.flatMap(([w]: Recorded) => inFlight(w).open), ...flight.open],
    calls: [...own.open, ...flight.calls, ...internal.flatMap(([, told]: Recorded) => told.open)].sort(),
    internal: internal.map(([w]: Recorded) => [w.worker.session_id, w.worker.name, w.status]),
  }
}

function tellList(of: Recorded, prefix: string[]) {
  const items: unknown[][] = []
  const calls = new Map<string, unknown[]>()
  let open: string[] = []
  const tell = (item: Recorded): void => {
    if (item.kind === 'reasoning') items.push([...prefix, 'thinking', whole(item.text)])
    else if (item.kind === 'tool_call') {
      const call = [
        ...prefix,
        'call',
        item.call_id,
        item.name,
        item.arguments,
        undefined,
        undefined,
        undefined,
      ]
      items.push(call)
      calls.set(item.call_id, call)
      open.push(item.call_id)
    } else if (item.kind === 'tool_result') {
      calls.get(item.call_id)!.splice(-3, 3, item.summary, whole(item.content), item.is_error ?? false)
      open = open.filter(id => id !== item.call_id)
    } else {
      const text = item.content.map((c: Recorded) => c.text).join('')
      items.push(
        item.role === 'system' ? [...prefix, 'system', 'message', text] : [...prefix, 'text', whole(text)],
      )
    }
  }
  for (const entry of of.entries) {
    if (entry.kind === 'segment_start') {
      items.push([...prefix, 'system_prompt', entry.system_prompt])
      entry.history.forEach(tell)
    } else if (entry.kind === 'user_input')
      items.push([...prefix, 'user', ...entry.segments.map((s: Recorded) => s.content ?? s.path ?? s.kind)])
    else if (entry.kind === 'assistant_item' || entry.kind === 'tool_result') tell(entry.item)
    else if (entry.kind === 'system_item')
      items.push([...prefix, 'system', entry.item.kind, whole(entry.item.body ?? entry.item.content)])
    else if (entry.kind === 'run_errored') items.push([...prefix, 'error', entry.message])
    if (entry.kind === 'run_completed' || entry.kind === 'run_errored') open = []
  }
  if (of.status !== 'running') open = []
  return { items, open }
}

/** Only what a running worker's last block still writes is open; finished ones that the log has are told already. */
function inFlight(of: Recorded): { items: unknown[][]; open: string[]; calls: string[] } {
  const items: unknown[][] = []
  const open: string[] = []
  const calls: string[] = []
  if (of.status !== 'running' || of.in_flight === undefined) return { items, open, calls }
  const log = JSON.stringify(of.entries)
  const blocks: Recorded[] = of.in_flight.blocks ?? []
  for (const [i, block] of blocks.entries()) {
    const last = i === blocks.length - 1
    if (block.kind === 'tool_call') {
      items.push(['call', block.id, block.name, undefined, undefined, undefined, undefined])
      calls.push(block.id)
    } else if (block.finished ? !log.includes(JSON.stringify(block.text).slice(1, -1)) : last) {
      items.push([block.kind, whole(block.text)])
      if (!block.finished) open.push(block.kind)
    }
  }
  for (const command of of.in_flight.commands ?? [])
    for (const stream of ['stdout', 'stderr']) if (command[stream]?.content) open.push(stream)
  return { items, open, calls }
}
