import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  CLASSES,
  type ClientState,
  emptyClientState,
  type Frame,
  reduce,
  type WorkerState,
} from '@shoji/web-contract'
import fc from 'fast-check'
import { burstFrames, type Folding, fold, isBurst, snapshotFrame } from '../../src/delivery/fold.ts'
import { createLists } from '../../src/delivery/lists.ts'
import { type Audience, admit, createAudience } from '../../src/delivery/selection.ts'
import { createCursors } from '../../src/journal/cursor.ts'
import type { Entry, Seq } from '../../src/journal/entry.ts'
import { createIngest, type Ingest, type Strip } from '../../src/journal/ingest.ts'
import type { StreamRecord } from '../../src/journal/journal.ts'
import { recoverOpenState } from '../../src/journal/recovery.ts'
import { openJournal, type SqliteJournal } from '../../src/journal/sqlite/journal.ts'
import { createIds } from '../../src/projection/ids.ts'
import type { CompiledPolicy, View } from '../../src/projection/view.ts'

/** A journal and everything that folds it, without sockets: many random streams share one file. */
export interface World {
  readonly journal: SqliteJournal
  readonly ingest: Ingest
  readonly folding: Folding
  readonly directory: string
  close(): Promise<void>
}

export async function openWorld(strip?: Strip): Promise<World> {
  const directory = mkdtempSync(join(tmpdir(), 'shoji-law-'))
  const journal = await openJournal({ dataDir: directory, thread: false })
  const ingest = await createIngest({ journal, ...(strip && { strip }) })
  const folding: Folding = {
    journal,
    ids: createIds(journal.keys.id),
    cursors: createCursors({
      key: journal.keys.cursor,
      generations: () => journal.generations,
      head: () => journal.head,
    }),
    lists: createLists(),
    monotonicMs: () => 0,
    views: () => [],
  }
  return {
    journal,
    ingest,
    folding,
    directory,
    async close() {
      await journal.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** What an upstream says, as the source hands it to ingest. */
export type Said =
  | { readonly kind: 'begin'; readonly event: object }
  | { readonly kind: 'event'; readonly event: object }
  | { readonly kind: 'gap' }
  | { readonly kind: 'stopped' }

let streams = 0

export interface Journaled {
  readonly record: StreamRecord
  readonly entries: readonly Entry[]
}

/** Hands everything to ingest under a worker of its own, and waits until it is durable. */
export async function journalAll({ journal, ingest }: World, said: readonly Said[]): Promise<Journaled> {
  const worker = `w${streams++}`
  const writer = await ingest.open({ source: 'runtime', runtime: 'rt', worker }, null)
  const after = ingest.position
  let n = 0
  for (const one of said) {
    const time = 1_000 + n
    if (one.kind === 'gap') writer.reject({ time, cause: 'malformed', bytes: 1, body: 'x' })
    else if (one.kind === 'stopped') writer.stopped(time)
    else {
      const envelope = { eventId: `e${n}`, payload: JSON.stringify(one.event), time }
      if (one.kind === 'begin')
        writer.begin(envelope, { reason: 'upstream_unverifiable', dialect: 'events-ws', followed: false })
      else writer.accept(envelope)
    }
    n += 1
  }
  // What a stitch holds is settled as at the end of a connection.
  writer.closed(false)
  await journal.durable(ingest.position)
  const entries: Entry[] = []
  for (let at = after; ; ) {
    const page = await journal.readAfter([writer.record.id], at, { maxRows: 7, maxBytes: 10_000 })
    entries.push(...page.entries)
    at = page.through
    if (page.atHead) return { record: writer.record, entries }
  }
}

export function audienceOf({ journal }: World, record: StreamRecord, view: View, history = 1_000): Audience {
  const policy: CompiledPolicy = { hash: view.hash, view: () => view, subjectHash: () => view.hash }
  const subject = { user: 'u', roles: [], groups: [] }
  const selection = { kind: 'worker' as const, runtime: record.runtime, worker: record.worker }
  const audience = createAudience(journal.keys.id, { selection, policy, subject, history })
  admit(audience, record)
  return audience
}

/** Every frame of the entries, one list an entry: the frame, the whole burst, or nothing. */
export async function framesOf(
  { folding }: World,
  audience: Audience,
  entries: readonly Entry[],
): Promise<Frame[][]> {
  const frames: Frame[][] = []
  for (const entry of entries) {
    const made = fold(folding, audience, entry)
    if (isBurst(made)) frames.push((await burstFrames(folding, audience, made, '[]')).frames)
    else frames.push(made === null ? [] : [made])
  }
  return frames
}

/** The snapshot a fresh viewer gets at a position. */
export async function snapshotAt(
  { folding, journal }: World,
  audience: Audience,
  { record }: Journaled,
  through: Seq,
): Promise<Extract<Frame, { event: 'snapshot' }>> {
  const open = await recoverOpenState(journal, record, through)
  const sight = [...audience.streams.values()][0]!
  return (await snapshotFrame(folding, audience, sight, through, open)) as never
}

export const reduceAll = (frames: readonly Frame[], state: ClientState = emptyClientState()): ClientState =>
  frames.reduce(reduce, state)

export const workerOf = (state: ClientState, record: StreamRecord): WorkerState | undefined =>
  state.workers[`${record.runtime}/${record.worker}`]?.state

/** A worker's state without what no law speaks of, in an order of its own. */
export function comparable(state: WorkerState, items: number) {
  const byId = (a: { block: string }, b: { block: string }) => (a.block < b.block ? -1 : 1)
  return {
    status: state.status,
    usage: state.usage,
    greeting: state.greeting,
    items: items === 0 ? [] : state.items.slice(-items),
    blocks: [...state.open.blocks].sort(byId),
    calls: [...state.open.calls].sort(byId),
  }
}

// ── generators ──────────────────────────────────────────────────────────────────────────────────────────

const levels = fc.constantFrom('show', 'mask', 'drop') as fc.Arbitrary<'show' | 'mask' | 'drop'>

export const anyView: fc.Arbitrary<View> = fc.tuple(...CLASSES.map(() => levels)).map(all => {
  const table = Object.fromEntries(CLASSES.map((c, i) => [c, all[i]!])) as View['levels']
  return { observe: true, levels: table, commands: [], hash: JSON.stringify(all) }
})

export const viewOf = (level: 'show' | 'mask' | 'drop'): View => ({
  observe: true,
  levels: Object.fromEntries(CLASSES.map(c => [c, level])) as View['levels'],
  commands: [],
  hash: level,
})

const text = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('a', 'aa', 'B', 'Bonus', 'Hello ', 'wörld', '\n', '') },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 6 }) },
)
const callId = fc.constantFrom('c1', 'c2', 'c3', 'odd id')
const toolName = fc.constantFrom('Bash', 'Read', 'Edit')
const commandId = fc.constantFrom('command-1', 'command-2')
const bag = { extra_field: fc.constant('foreign') }

const ev = (event: string, data?: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<object> =>
  data === undefined
    ? fc.constant({ event })
    : fc.record({
        event: fc.constant(event),
        data: fc.record<Record<string, unknown>>({ ...data, ...bag }, { requiredKeys: Object.keys(data) }),
      })

const segments = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('text'), content: text }),
    fc.record({ kind: fc.constant('file_ref'), path: text }),
    fc.record({ kind: fc.constant('novel'), content: text }),
    fc.record({
      kind: fc.constant('paste'),
      id: fc.nat(9),
      chars: fc.nat(9),
      lines: fc.nat(9),
      content: text,
    }),
  ),
  { maxLength: 3 },
)
const systemItem = fc.oneof(
  fc.record({ kind: fc.constant('notification'), message: text, body: text }),
  fc.record({ kind: fc.constant('file_attachment'), path: text, body: text }),
  fc.record({ kind: fc.constant('interrupt'), body: text }),
  fc.record({ kind: fc.constant('novel'), body: text }),
)

/** Events of one scope, in no order at all: laws hold for whatever comes. */
const plainEvent: fc.Arbitrary<object> = fc.oneof(
  { weight: 8, arbitrary: ev('text_delta', { text }) },
  { weight: 3, arbitrary: ev('text_done', { text }) },
  { weight: 2, arbitrary: ev('thinking_start') },
  { weight: 5, arbitrary: ev('thinking_delta', { text }) },
  { weight: 2, arbitrary: ev('thinking_done', { text }) },
  { weight: 3, arbitrary: ev('tool_call_start', { id: callId, name: toolName }) },
  { weight: 2, arbitrary: ev('tool_call_args_delta', { id: callId, json: text }) },
  {
    weight: 2,
    arbitrary: ev('tool_call_done', { id: callId, name: toolName, arguments: fc.constant('{"a":1}') }),
  },
  {
    weight: 3,
    arbitrary: ev('tool_result', { id: callId, summary: text, output: text, is_error: fc.boolean() }),
  },
  { weight: 1, arbitrary: ev('tool_result', { id: callId, summary: text, is_error: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: ev('command', {
      event: fc.record({ kind: fc.constant('started'), command_id: commandId, tool_call_id: callId }),
    }),
  },
  {
    weight: 3,
    arbitrary: ev('command', {
      event: fc.record({
        kind: fc.constant('output'),
        command_id: commandId,
        stream: fc.constantFrom('stdout', 'stderr'),
        start_offset: fc.nat(9),
        end_offset: fc.nat(9),
        content: text,
      }),
    }),
  },
  {
    weight: 1,
    arbitrary: ev('command', {
      event: fc.record({
        kind: fc.constant('terminal'),
        command_id: commandId,
        status: fc.constant('completed'),
        exit_code: fc.nat(2),
      }),
    }),
  },
  { weight: 2, arbitrary: ev('user_message', { segments }) },
  { weight: 1, arbitrary: ev('system_item', { item: systemItem }) },
  { weight: 2, arbitrary: ev('status', { status: fc.constantFrom('idle', 'running', 'paused') }) },
  { weight: 1, arbitrary: ev('turn_start', { turn: fc.nat(9) }) },
  { weight: 1, arbitrary: ev('turn_end', { turn: fc.nat(9), result: text }) },
  { weight: 1, arbitrary: ev('llm_call_start', { llm_call: fc.nat(9) }) },
  { weight: 1, arbitrary: ev('llm_call_end', { llm_call: fc.nat(9) }) },
  { weight: 1, arbitrary: ev('llm_retry', { llm_call: fc.nat(9), error: text }) },
  { weight: 1, arbitrary: ev('llm_continuation', { llm_call: fc.nat(9), reason: text }) },
  { weight: 1, arbitrary: ev('run_end', { result: fc.constantFrom('finished', 'paused', 'rolled_back') }) },
  { weight: 1, arbitrary: ev('usage', { input_tokens: fc.nat(99), output_tokens: fc.nat(99) }) },
  { weight: 1, arbitrary: ev('error', { code: text, message: text }) },
  { weight: 1, arbitrary: ev('alert', { level: text, source: text, message: text, timestamp_ms: fc.nat() }) },
  { weight: 1, arbitrary: ev('memory_worker', { worker: text, status: text, message: text }) },
  { weight: 1, arbitrary: ev('compact_start') },
  { weight: 1, arbitrary: ev('compact_failed', { error: text }) },
  { weight: 1, arbitrary: ev('invoke_start', { kind: text }) },
  { weight: 1, arbitrary: ev('shutdown') },
  { weight: 1, arbitrary: ev('rewind_targets', { targets: fc.constant([]) }) },
  { weight: 1, arbitrary: ev('completions', { entries: fc.constant([]) }) },
  { weight: 1, arbitrary: ev('unheard_of', { anything: fc.jsonValue({ maxDepth: 2 }) }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      { event: 'block_end' },
      { event: 'greeting', data: { cwd: '/x' } },
      { event: '__proto__', data: {} },
      { event: 'text_delta', data: null },
      { event: 'tool_result' },
    ),
  },
)

const session = fc.constantFrom('s1', 's2', 's 3')
const nested = (event: fc.Arbitrary<object>): fc.Arbitrary<object> =>
  fc.record({
    event: fc.constant('internal_worker'),
    data: fc.record({
      worker: session.map(session_id => ({ session_id, name: `name-${session_id}`, kind: 'sub_worker' })),
      revision: fc.nat(99),
      event,
    }),
  })

const logItem = fc.oneof(
  fc.record({
    kind: fc.constant('message'),
    role: fc.constant('assistant'),
    content: fc.array(fc.record({ kind: fc.constant('text'), text }), { maxLength: 2 }),
  }),
  fc.record({ kind: fc.constant('reasoning'), text, encrypted_content: fc.constant('ENC') }),
  fc.record({
    kind: fc.constant('tool_call'),
    call_id: callId,
    name: toolName,
    arguments: fc.constant('{}'),
  }),
)
const logEntry = fc.oneof(
  fc.record({ kind: fc.constant('user_input'), ts: fc.nat(999), segments }),
  fc.record({ kind: fc.constant('assistant_item'), ts: fc.nat(999), item: logItem }),
  fc.record({
    kind: fc.constant('tool_result'),
    ts: fc.nat(999),
    item: fc.record({ kind: fc.constant('tool_result'), call_id: callId, summary: text, content: text }),
  }),
  fc.record({ kind: fc.constant('system_item'), ts: fc.nat(999), item: systemItem }),
  fc.record({
    kind: fc.constant('segment_start'),
    ts: fc.nat(999),
    system_prompt: text,
    history: fc.array(logItem, { maxLength: 2 }),
  }),
  fc.record({ kind: fc.constant('run_completed'), ts: fc.nat(999), result: fc.constant('finished') }),
  fc.record({ kind: fc.constant('run_errored'), ts: fc.nat(999), message: text }),
  fc.record({ kind: fc.constant('novel_kind'), ts: fc.nat(999), secret: text }),
)
const entriesOf = fc.array(logEntry, { maxLength: 8 })
const inFlight = fc.record({
  blocks: fc.array(
    fc.oneof(
      fc.record({ kind: fc.constantFrom('text', 'thinking'), text, finished: fc.constant(true) }),
      fc.record({ kind: fc.constantFrom('text', 'thinking'), text }),
      fc.record({
        kind: fc.constant('tool_call'),
        id: callId,
        name: toolName,
        args: text,
        state: fc.constant('streaming_args'),
      }),
    ),
    { maxLength: 3 },
  ),
  commands: fc.array(
    fc.record({
      command_id: commandId,
      tool_call_id: callId,
      status: fc.constantFrom('running', 'completed'),
      stdout: fc.record({
        start_offset: fc.nat(9),
        end_offset: fc.nat(9),
        content: text,
        truncated: fc.boolean(),
      }),
      exit_code: fc.constant(null),
    }),
    { maxLength: 2 },
  ),
})
export const anySnapshot: fc.Arbitrary<object> = fc.record({
  event: fc.constant('snapshot'),
  data: fc.record(
    {
      entries: entriesOf,
      greeting: fc.record({
        worker_name: text,
        cwd: text,
        provider: fc.constant('p'),
        tools: fc.array(text, { maxLength: 2 }),
      }),
      status: fc.constantFrom('idle', 'running', 'paused'),
      in_flight: inFlight,
      internal_workers: fc.array(
        fc.record({
          worker: session.map(session_id => ({ session_id, name: 'n', kind: 'sub_worker' })),
          revision: fc.nat(9),
          entries: entriesOf,
          status: fc.constantFrom('idle', 'running'),
          in_flight: inFlight,
        }),
        { maxLength: 2 },
      ),
    },
    { requiredKeys: ['entries', 'greeting', 'status'] },
  ),
})

const replacing = fc.oneof(
  fc.record({
    event: fc.constant('rewind_applied'),
    data: fc.record({ entries: entriesOf, input: segments, summary: text }),
  }),
  fc.record({
    event: fc.constant('segment_rotated'),
    data: fc.record({
      entry: fc.record({
        kind: fc.constant('segment_start'),
        ts: fc.nat(9),
        system_prompt: text,
        history: fc.array(logItem, { maxLength: 3 }),
      }),
    }),
  }),
)

export const anyEvent: fc.Arbitrary<object> = fc.oneof(
  { weight: 40, arbitrary: plainEvent },
  { weight: 8, arbitrary: nested(plainEvent) },
  { weight: 1, arbitrary: nested(nested(plainEvent)) },
  {
    weight: 1,
    arbitrary: session.map(session_id => ({
      event: 'internal_worker_removed',
      data: { worker: { session_id }, revision: 1 },
    })),
  },
)

/** A stream as a Runtime could tell it, and worse: snapshots first, then anything. */
export const anyStream = (maxLength = 40): fc.Arbitrary<Said[]> =>
  fc
    .tuple(
      anySnapshot,
      fc.array(
        fc.oneof(
          { weight: 60, arbitrary: anyEvent.map((event): Said => ({ kind: 'event', event })) },
          { weight: 1, arbitrary: replacing.map((event): Said => ({ kind: 'event', event })) },
          { weight: 1, arbitrary: anySnapshot.map((event): Said => ({ kind: 'begin', event })) },
          { weight: 1, arbitrary: fc.constant<Said>({ kind: 'gap' }) },
          { weight: 1, arbitrary: fc.constant<Said>({ kind: 'stopped' }) },
        ),
        { maxLength },
      ),
    )
    .map(([first, rest]) => [{ kind: 'begin', event: first }, ...rest])

/**
 * Runs of a property, times LAW_SCALE where it is set (`LAW_SCALE=20 npm run test:laws`). The seed is fast-check's
 * own: it is printed with every failure, and LAW_SEED repeats it.
 */
export const runs = (count: number): { numRuns: number; seed?: number } => ({
  numRuns: Math.ceil(count * Number(process.env.LAW_SCALE ?? 1)),
  ...(process.env.LAW_SEED !== undefined && { seed: Number(process.env.LAW_SEED) }),
})
