/** `journal.never_store`: what is removed before the write is in no row, no page of the file, and no frame. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CLASSES, type Class } from '@shoji/web-contract'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { asSeq } from '../../src/journal/entry.ts'
import type { Strip } from '../../src/journal/ingest.ts'
import { encodeOpenState } from '../../src/journal/open-state.ts'
import { asArray, asRecord, asText, isRecord, type Json } from '../../src/lib/json.ts'
import { createStrip } from '../../src/projection/strip.ts'
import {
  anyStream,
  anyView,
  audienceOf,
  comparable,
  framesOf,
  type Journaled,
  journalAll,
  openWorld,
  reduceAll,
  runs,
  type Said,
  snapshotAt,
  viewOf,
  type World,
  workerOf,
} from './_world.ts'

/** One journal for all runs, each with classes of its own. */
let now: Strip = createStrip([])
const strip: Strip = {
  event: (event, data) => now.event(event, data),
  open: state => now.open(state),
}
let world: World
beforeAll(async () => {
  world = await openWorld(strip)
})
afterAll(() => world.close())

const someClasses = fc.subarray([...CLASSES], { minLength: 1 })

// ── planting ────────────────────────────────────────────────────────────────────────────────────────────

/** Written from the vocabulary, not from the tables under test: class and field of every event. */
const PLAIN: Readonly<Record<string, readonly (readonly [Class, string])[]>> = {
  text_delta: [['assistant_text', 'text']],
  text_done: [['assistant_text', 'text']],
  thinking_delta: [['thinking', 'text']],
  thinking_done: [['thinking', 'text']],
  tool_call_start: [['tool_call', 'name']],
  tool_call_args_delta: [['tool_args', 'json']],
  tool_call_done: [
    ['tool_call', 'name'],
    ['tool_args', 'arguments'],
  ],
  tool_result: [
    ['tool_output', 'summary'],
    ['tool_output', 'output'],
  ],
  usage: [['usage', 'input_tokens']],
  turn_end: [['lifecycle', 'result']],
  run_end: [['lifecycle', 'result']],
  invoke_start: [['lifecycle', 'kind']],
  llm_retry: [['diagnostics', 'error']],
  llm_continuation: [['diagnostics', 'reason']],
  compact_failed: [['diagnostics', 'error']],
  error: [
    ['lifecycle', 'code'],
    ['diagnostics', 'message'],
  ],
  alert: [
    ['diagnostics', 'level'],
    ['diagnostics', 'source'],
    ['diagnostics', 'message'],
  ],
  memory_worker: [
    ['diagnostics', 'worker'],
    ['diagnostics', 'message'],
  ],
  unheard_of: [['unknown', 'anything']],
}
const SEGMENT: Readonly<Record<string, readonly [Class, string]>> = {
  text: ['user_input', 'content'],
  paste: ['user_input', 'content'],
  file_ref: ['workspace', 'path'],
}
const SYSTEM: Readonly<Record<string, readonly (readonly [Class, string])[]>> = {
  notification: [
    ['system', 'message'],
    ['system', 'body'],
  ],
  file_attachment: [
    ['workspace', 'path'],
    ['tool_output', 'body'],
  ],
  interrupt: [['system', 'body']],
}

/** Puts `mark(class)` into every field of every class, and into a field beside them that nobody knows. */
function plant(said: Said, mark: (of: Class) => string): Said {
  if (!('event' in said)) return said
  const event = structuredClone(said.event) as Json
  plantEvent(event, mark)
  return { ...said, event }
}

type Mark = (of: Class) => string

function plantEvent(event: Json, mark: Mark): void {
  const name = asText(event.event)
  if (!isRecord(event.data)) return
  const data = event.data as Json
  const set = (of: Class, field: string): void => {
    data[field] = mark(of)
    data[`${field}_of_a_later_release`] = { deep: [mark(of)] }
  }
  for (const [of, field] of Object.hasOwn(PLAIN, name) ? PLAIN[name]! : []) set(of, field)
  if (name === 'tool_result')
    data.attachments = [{ kind: 'image', mime_type: 'image/png', data: mark('tool_output') }]
  if (name === 'user_message') plantSegments(data.segments, mark)
  if (name === 'system_item') plantSystem(data.item, mark)
  if (name === 'command') plantOutput(asRecord(data.event), mark)
  if (name === 'rewind_targets') data.targets = [{ preview: mark('user_input') }]
  if (name === 'internal_worker') plantEvent(asRecord(data.event), mark)
  if (name === 'snapshot') plantWorker(data, mark)
  if (name === 'rewind_applied') {
    plantEntries(data.entries, mark)
    plantSegments(data.input, mark)
    data.summary = mark('user_input')
  }
  if (name === 'segment_rotated') plantEntries([data.entry], mark)
}

function plantOutput(command: Json, mark: Mark): void {
  if (command.kind === 'output') command.content = mark('tool_output')
  if (command.kind === 'terminal') command.status = mark('lifecycle')
  command.tail = mark('tool_output')
}

const plantSegments = (list: unknown, mark: Mark): void => {
  for (const segment of asArray(list).map(asRecord)) {
    const [of, field] = SEGMENT[asText(segment.kind)] ?? ['user_input', 'content']
    segment[field] = mark(of)
    segment.later = mark('user_input')
  }
}

const plantSystem = (value: unknown, mark: Mark): void => {
  const item = asRecord(value)
  for (const [of, field] of SYSTEM[asText(item.kind)] ?? [['system', 'body'] as const]) item[field] = mark(of)
  item.later = mark('system')
}

function plantWorker(data: Json, mark: Mark): void {
  plantEntries(data.entries, mark)
  const greeting = asRecord(data.greeting)
  if ('cwd' in greeting) Object.assign(greeting, { cwd: mark('workspace'), tools: [mark('workspace')] })
  if (isRecord(data.worker)) (data.worker as Json).name = mark('lifecycle')
  if (isRecord(data.worker)) data.error = mark('diagnostics')
  const flight = asRecord(data.in_flight)
  for (const block of asArray(flight.blocks).map(asRecord)) {
    if (block.kind === 'text') block.text = mark('assistant_text')
    if (block.kind === 'thinking')
      Object.assign(block, { text: mark('thinking'), signature: mark('thinking') })
    if (block.kind === 'tool_call') Object.assign(block, { name: mark('tool_call'), args: mark('tool_args') })
  }
  for (const command of asArray(flight.commands).map(asRecord)) {
    asRecord(command.stdout).content = mark('tool_output')
    command.tail = mark('tool_output')
  }
  for (const worker of asArray(data.internal_workers)) plantWorker(asRecord(worker), mark)
}

function plantEntries(list: unknown, mark: Mark): void {
  for (const entry of asArray(list).map(asRecord)) {
    if (entry.kind === 'segment_start') {
      entry.system_prompt = mark('system')
      for (const item of asArray(entry.history)) plantItem(asRecord(item), mark)
    }
    if (entry.kind === 'user_input') {
      plantSegments(entry.segments, mark)
      entry.extensions = [mark('user_input')]
    }
    if (entry.kind === 'assistant_item' || entry.kind === 'tool_result') plantItem(asRecord(entry.item), mark)
    if (entry.kind === 'system_item') plantSystem(entry.item, mark)
    if (entry.kind === 'run_errored') entry.message = mark('diagnostics')
    if (entry.kind === 'run_completed') entry.result = mark('lifecycle')
    if (entry.kind === 'novel_kind') entry.secret = mark('unknown')
  }
}

function plantItem(item: Json, mark: Mark): void {
  if (item.kind === 'message') {
    const of = item.role === 'user' ? 'user_input' : item.role === 'assistant' ? 'assistant_text' : 'system'
    item.content = [
      { kind: 'text', text: mark(of) },
      { kind: 'refusal', refusal: mark(of) },
      { kind: 'later', text: mark(of) },
    ]
  }
  if (item.kind === 'reasoning')
    Object.assign(item, {
      text: mark('thinking'),
      summary: [mark('thinking')],
      encrypted_content: mark('thinking'),
      signature: mark('thinking'),
      later: { deep: mark('thinking') },
    })
  if (item.kind === 'tool_call')
    Object.assign(item, { name: mark('tool_call'), arguments: JSON.stringify({ a: mark('tool_args') }) })
  if (item.kind === 'tool_result')
    Object.assign(item, {
      summary: mark('tool_output'),
      content: mark('tool_output'),
      later: mark('tool_output'),
    })
}

// ── the property ────────────────────────────────────────────────────────────────────────────────────────

/** Everything that a viewer of everything is sent of a stream: each frame, and a snapshot at its end. */
async function shown(journaled: Journaled): Promise<string> {
  const { record, entries } = journaled
  const audience = audienceOf(world, record, viewOf('show'))
  const frames = (await framesOf(world, audience, entries)).flat()
  const snapshot = await snapshotAt(world, audience, journaled, entries.at(-1)!.seq)
  return JSON.stringify([frames, snapshot], (_, value) => (typeof value === 'bigint' ? String(value) : value))
}

let run = 0

it('keeps no trace of a removed class in rows, frames or the bytes of the file', async () => {
  let kept = 0
  await fc.assert(
    fc.asyncProperty(anyStream(), someClasses, async (said, classes) => {
      now = createStrip(classes)
      run += 1
      const mark: Mark = of => `${classes.includes(of) ? 'GONE' : 'KEPT'}${run}${of.replace('_', '')}`
      const journaled = await journalAll(
        world,
        said.map(one => plant(one, mark)),
      )
      const rows = journaled.entries.map(e => e.payload + JSON.stringify(e.context)).join('\n')
      const frames = await shown(journaled)
      expect(rows).not.toContain('GONE')
      expect(frames).not.toContain('GONE')
      if (rows.includes('KEPT')) kept += 1
    }),
    runs(200),
  )
  expect(kept).toBeGreaterThan(0)
  const writer = await world.ingest.open({ source: 'runtime', runtime: 'rt', worker: 'w0' }, null)
  writer.reject({ time: 1, cause: 'malformed', bytes: 9, body: '{"event":"thinking_delta","GONE' })
  await world.journal.durable(world.ingest.position)
  await expect.poll(() => world.journal.readQuarantine(1)).toMatchObject([{ cause: 'malformed', body: '' }])
  const bytes = ['journal.db', 'journal.db-wal']
    .map(name => join(world.directory, name))
    .filter(existsSync)
    .map(path => readFileSync(path, 'latin1'))
  expect(bytes.some(b => b.includes('KEPT'))).toBe(true)
  expect(bytes.some(b => b.includes('GONE'))).toBe(false)
})

it('reduces a snapshot and the frames after it to what all frames reduce to, whatever is not kept', async () => {
  await fc.assert(
    fc.asyncProperty(anyStream(), anyView, someClasses, fc.nat(), async (said, view, classes, at) => {
      now = createStrip(classes)
      const journaled = await journalAll(world, said)
      const { record, entries } = journaled
      const audience = audienceOf(world, record, view)
      const whole = workerOf(reduceAll((await framesOf(world, audience, entries)).flat()), record)
      const cut = at % entries.length
      const snapshot = await snapshotAt(world, audience, journaled, entries[cut]!.seq)
      const after = await framesOf(world, audience, entries.slice(cut + 1))
      const joined = workerOf(reduceAll([snapshot, ...after.flat()]), record)!
      if (whole === undefined) return expect(joined).toMatchObject({ items: [], status: null })
      expect(comparable(joined, 1_000)).toEqual(comparable(whole, 1_000))
    }),
    runs(300),
  )
})

it('shows a removed class as withheld and never as an empty text, and sends no pieces of it', async () => {
  now = createStrip(['thinking'])
  const tell = (event: string, data?: object): Said => ({ kind: 'event', event: { event, data } })
  const { record, entries } = await journalAll(world, [
    { kind: 'begin', event: { event: 'snapshot', data: { entries: [], status: 'running' } } },
    tell('thinking_start'),
    tell('thinking_delta', { text: 'hm' }),
    tell('thinking_done', { text: 'hm' }),
    tell('text_done', { text: 'said' }),
  ])
  const frames = await framesOf(world, audienceOf(world, record, viewOf('show')), entries)
  expect(frames.map(f => f.map(one => one.event === 'envelope' && one.data.event))).toEqual([
    [false, false],
    ['thinking_start'],
    [],
    ['thinking_done'],
    ['text_done'],
  ])
  expect(frames[3]![0]!.data).toMatchObject({
    data: { text: '' },
    withheld: [{ at: '/data/text', class: 'thinking', level: 'mask' }],
  })
  expect(frames[4]![0]!.data).not.toHaveProperty('withheld')
  expect(entries.map(e => e.mark)).toEqual([false, true, false, true, true])
  expect(await framesOf(world, audienceOf(world, record, viewOf('drop')), entries)).toEqual([
    [],
    [],
    [],
    [],
    [],
  ])
})

it('takes what must not be stored out of a state that an earlier process has stored', async () => {
  now = createStrip([])
  const { record } = await journalAll(world, [
    {
      kind: 'begin',
      event: {
        event: 'snapshot',
        data: { entries: [], status: 'idle', greeting: { cwd: '/GONE', worker_name: 'w' } },
      },
    },
  ])
  const open = world.ingest.cut([record.id]).states.get(record.id)!
  open.calls.set('c', { key: { seq: asSeq(1), index: 0 }, id: 'c', tool: 'GONE', seen: [], open: true })
  const block = { key: { seq: asSeq(2), index: 0 }, item: { seq: asSeq(1), index: 0 }, seen: [] }
  open.commands.set('k', {
    item: block.item,
    tool: 'GONE',
    seen: [],
    stdout: { ...block, kind: 'stdout', tool: 'GONE' },
  })
  createStrip(['workspace', 'tool_call']).open(open)
  expect(open.greeting).toEqual({ cwd: '', worker_name: 'w' })
  expect(encodeOpenState(open)).not.toContain('GONE')
  expect(open.commands.get('k')?.stdout).toMatchObject({ kind: 'stdout', tool: null })
})
