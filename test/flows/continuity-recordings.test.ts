import type { Item } from '@shoji/web-contract'
import { describe, expect, it } from 'vitest'
import {
  loadRecording,
  payloadOf,
  type RecordedConnection,
  type Recording,
  recordingNames,
} from '../../src/embedded-runtime/recording.ts'
import { replayVerbatim } from '../../src/embedded-runtime/replay-verbatim.ts'
import { startShoji, TOKENS } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'

/**
 * Every recording in which a worker was watched from a fresh snapshot and looked at again when it had come to
 * rest: the recorded connection is served to Shoji's first connection, the later one to every other. What a
 * viewer with everything granted ends up with says the same as the recorded last snapshot; and nothing but
 * what is listed here replaces the list.
 */
const directory = new URL('../recordings/', import.meta.url).pathname
const names = await recordingNames(directory)

/** Lists that a resync replaces, with the fact that explains it. */
const REPLACED: Readonly<Record<string, string>> = {
  'burst-lost-blocks': 'upstream_resynced', // R20: whole blocks were lost before they were numbered
  'compaction-manual': 'compacted', // R24, R37: only a new snapshot shows the new history
  'compaction-auto': 'compacted',
  'later-compaction': 'compacted', // told live there
}

/** The driver left frames out of the recording. */
const INCOMPLETE: ReadonlySet<string> = new Set(['ping-fence', 'later-ping-fence'])

// biome-ignore lint/suspicious/noExplicitAny: recorded JSON, looked at by an oracle of its own
type Recorded = any

interface Case {
  readonly watched: RecordedConnection
  readonly later: RecordedConnection
  readonly snapshot: Recorded
}

const textsOf = (connection: RecordedConnection): string[] =>
  connection.frames.filter(f => f.fromRuntime && f.kind === 'text').map(f => f.text)

function firstSnapshot(connection: RecordedConnection): Recorded | null {
  const [first, second] = textsOf(connection)
  const payload = first === undefined ? undefined : payloadOf(first)
  const parsed = payload === undefined ? null : JSON.parse(payload)
  const refused = second?.includes('"kind":"diagnostic"') || second?.startsWith('{"event":"error"')
  if (parsed?.event !== 'snapshot' || parsed.data.greeting?.provider === 'worker-runtime' || refused)
    return null
  return parsed.data
}

/** The connection that watched most, and the last one at rest that was opened after it had ended. */
function caseOf({ connections, http }: Recording): Case | null {
  const fresh = connections.filter(
    c => c.refused === undefined && c.query === '' && firstSnapshot(c) !== null,
  )
  const cases = fresh.flatMap((watched): Case[] => {
    // Killed with its Runtime: what a real one would send again is not in the later connection.
    if (watched.close?.byClient === false) return []
    const after = connections.filter(
      c =>
        c.workerId === watched.workerId &&
        c.route === watched.route &&
        c.openLine > (watched.frames.at(-1)?.line ?? 0),
    )
    const later = after.findLast(c => firstSnapshot(c)?.status === 'idle' && c.openLine > watched.openLine)
    // What was asked for between the two was watched by neither.
    const asked = (line: number): boolean =>
      line > (watched.frames.at(-1)?.line ?? 0) && line < (later?.openLine ?? 0)
    if (http.some(({ method, line }) => method === 'POST' && asked(line))) return []
    return later === undefined ? [] : [{ watched, later, snapshot: firstSnapshot(later) }]
  })
  return cases.sort((a, b) => textsOf(b.watched).length - textsOf(a.watched).length)[0] ?? null
}

/** True where the watched connection saw the worker come to rest at its end. */
function restedAtEnd({ watched }: Case): boolean {
  const last = textsOf(watched)
    .map(payloadOf)
    .filter(p => p !== undefined)
    .map(p => JSON.parse(p))
    .findLast(p => p.event === 'status' || p.event === 'snapshot')
  return last?.data?.status === 'idle'
}

const looked = (
  await Promise.all(
    names.map(async name => {
      const recording = await loadRecording(directory, name)
      const found = INCOMPLETE.has(name) ? null : caseOf(recording)
      return found === null || !restedAtEnd(found) ? [] : [{ name, recording, found }]
    }),
  )
).flat()

it('finds a later look at rest in about half of the recordings', () => {
  expect(looked.length).toBeGreaterThan(34)
  expect(looked.map(({ name }) => name)).toEqual(expect.arrayContaining(Object.keys(REPLACED)))
})

describe.each(looked)('$name', ({ name, recording, found }) => {
  it('ends with what the last snapshot says', async () => {
    const { watched, later, snapshot } = found
    const between = recording.connections.filter(c => c === watched || c === later)
    await using runtime = await replayVerbatim(
      { ...recording, connections: between },
      { listing: 'synthesised', pingWaitMs: 5_000 },
    )
    await using shoji = await startShoji({ runtimes: [{ id: 'rt', url: runtime.url, token: 'demo-token' }] })
    const at = `${shoji.url}/api/runtimes/rt/workers/${watched.workerId}/events`
    using stream = await open(at)
    const stateOf = () => stream.state.workers[`rt/${watched.workerId}`]
    await stream.until(s => stateOf()?.state.status === 'idle' && s.frames.length > 2, 'rest')
    // The later connection goes on after its snapshot: where it became the stream, its snapshot is what counts.
    const replacing = () =>
      stream.frames.findLast((f, i) => f.event === 'snapshot' && stream.frames[i - 1]?.event === 'reset')
    const shown = () => {
      const list = replacing()
      const lists = [stateOf()!.state.items, ...(list?.event === 'snapshot' ? [list.data.state.items] : [])]
      return lists.map(items => said(items, finished(stream)))
    }
    const wanted = JSON.stringify(saidBy(snapshot))
    const same = (): boolean => shown().some(list => JSON.stringify(list) === wanted)
    await stream.until(() => same(), 'the same').catch(() => {})
    expect(shown()).toContainEqual(saidBy(snapshot))
    const resets = stream.frames.flatMap(f => (f.event === 'reset' ? [f.data.reason] : []))
    expect(new Set(resets)).toEqual(new Set(REPLACED[name] === undefined ? [] : [REPLACED[name]]))
  })
})

async function open(url: string): Promise<TestStream> {
  for (let i = 0; ; i++) {
    const stream = await TestStream.open(url, {
      token: TOKENS.admin,
      query: { history: '1000' },
      timeoutMs: 6_000,
    }).catch(error => {
      if (i >= 100) throw error
      return null
    })
    if (stream !== null) return stream
    await new Promise(r => setTimeout(r, 20))
  }
}

// ── what was said, in the words of an oracle of its own ──────────────────────────────────────────────────
// Between inputs and results: the assistant's texts joined, then the calls; system items apart, as a bag.

interface Sentence {
  texts: string
  calls: string[]
}

function collect() {
  const out: unknown[] = []
  let now: Sentence = { texts: '', calls: [] }
  const flush = (): void => {
    if (now.texts !== '' || now.calls.length > 0) out.push(['assistant', now.texts, ...now.calls])
    now = { texts: '', calls: [] }
  }
  return {
    out,
    flush,
    text: (text: string) => {
      now.texts += text
    },
    call: (id: string, name: string) => now.calls.push(`${id} ${name}`),
    other: (...parts: unknown[]) => {
      flush()
      out.push(parts)
    },
  }
}

const inputOf = (segments: Recorded[]): string =>
  segments.map(s => String(s.content ?? s.path ?? s.kind).trim()).join('|')

/** Texts that had their end, live or in a snapshot: the others are not logged and stay on screen. */
function finished(stream: TestStream): Set<string> {
  const ids = new Set<string>()
  for (const { event, data } of stream.frames) {
    if (event === 'envelope' && data.event === 'text_done') ids.add(data.item!)
    if (event !== 'snapshot') continue
    const open = new Set(data.state.open.blocks.map(b => b.item))
    for (const item of data.state.items) if (!open.has(item.id)) ids.add(item.id)
  }
  return ids
}

/** Only what is logged: thinking, errors and blocks without an end stay on screen and are not compared. */
function said(items: readonly Item[], ended: ReadonlySet<string>): unknown[] {
  const told = collect()
  const results: unknown[][] = []
  for (const item of items) {
    if (item.internal !== undefined) continue
    if (item.kind === 'user_message') told.other('user', inputOf(item.segments))
    else if (item.kind === 'text' && ended.has(item.id)) told.text(item.text)
    else if (item.kind === 'tool_call' && item.arguments !== undefined) {
      told.call(item.call!, item.name!)
      if (item.result !== undefined)
        results.push([item.call, item.result.summary, item.result.is_error ?? false])
    }
  }
  told.flush()
  return [told.out, results.sort()]
}

function saidBy(snapshot: Recorded): unknown[] {
  const told = collect()
  const results: unknown[][] = []
  const tell = (item: Recorded): void => {
    if (item.kind === 'tool_call') told.call(item.call_id, item.name)
    else if (item.kind === 'tool_result') results.push([item.call_id, item.summary, item.is_error ?? false])
    else if (item.kind === 'message' && item.role === 'assistant')
      told.text(item.content.map((c: Recorded) => c.text).join(''))
    else if (item.kind === 'message' && item.role === 'user')
      told.other(
        'user',
        item.content
          .map((c: Recorded) => c.text)
          .join('')
          .trim(),
      )
  }
  for (const entry of snapshot.entries) {
    if (entry.kind === 'segment_start') entry.history.forEach(tell)
    else if (entry.kind === 'user_input') told.other('user', inputOf(entry.segments))
    else if (entry.kind === 'assistant_item' || entry.kind === 'tool_result') tell(entry.item)
  }
  told.flush()
  return [told.out, results.sort()]
}
