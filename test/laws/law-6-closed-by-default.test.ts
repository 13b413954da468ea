import { CLASSES, type Frame } from '@shoji/web-contract'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { fold } from '../../src/delivery/fold.ts'
import { EVENTS } from '../../src/projection/classes.ts'
import { closedPolicy } from '../../src/projection/policy/compile.ts'
import type { View } from '../../src/projection/view.ts'
import {
  anyStream,
  anyView,
  audienceOf,
  framesOf,
  journalAll,
  openWorld,
  runs,
  type Said,
  viewOf,
  type World,
} from './_world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const CANARY = 'CANARY-7f3a'
const begin: Said = { kind: 'begin', event: { event: 'snapshot', data: { entries: [], status: 'running' } } }

it('shows nothing at all where nothing is granted, and nothing to the shortest policy', async () => {
  const subject = { user: 'u', roles: [], groups: [] }
  const resource = { source: 'runtime' as const, runtime: 'rt', worker: 'w', profile: null }
  expect(closedPolicy().view(subject, resource)).toMatchObject({ observe: false, commands: [] })
  await fc.assert(
    fc.asyncProperty(anyStream(), async said => {
      const { record, entries } = await journalAll(world, said)
      expect((await framesOf(world, audienceOf(world, record, viewOf('drop')), entries)).flat()).toEqual([])
    }),
    runs(100),
  )
})

it('never shows a field that is not in the table, whatever is granted short of `unknown`', async () => {
  await fc.assert(
    fc.asyncProperty(anyStream(), anyView, async (said, view) => {
      const planted = said.map(one => ('event' in one ? { ...one, event: plant(one.event) } : one)) as Said[]
      const closed: View = { ...view, levels: { ...view.levels, unknown: 'drop' } }
      const { record, entries } = await journalAll(world, planted)
      const frames = (await framesOf(world, audienceOf(world, record, closed), entries)).flat()
      expect(JSON.stringify(frames)).not.toContain(CANARY)
    }),
    runs(200),
  )
})

/** A foreign field in every object that is not itself text. */
function plant(value: unknown): object {
  if (Array.isArray(value))
    return value.map(part => (typeof part === 'object' && part !== null ? plant(part) : part))
  const fields = Object.entries(value as object).map(([name, part]) => [
    name,
    typeof part === 'object' && part !== null && name !== 'anything' ? plant(part) : part,
  ])
  return { ...Object.fromEntries(fields), zz_planted: CANARY, zz_deep: { inner: [CANARY] } }
}

it('withholds an event that is not known, in whole, and shows its neighbours', async () => {
  const { record, entries } = await journalAll(world, [
    begin,
    { kind: 'event', event: { event: 'text_delta', data: { text: 'before' } } },
    { kind: 'event', event: { event: 'brand_new', data: { text: CANARY } } },
    {
      kind: 'event',
      event: {
        event: 'internal_worker',
        data: { worker: { session_id: 's' }, event: { event: 'brand_new', data: { text: CANARY } } },
      },
    },
    { kind: 'event', event: { event: 'text_delta', data: { text: 'after' } } },
  ])
  const all: View = { ...viewOf('show'), levels: { ...viewOf('show').levels, unknown: 'drop' } }
  const frames = (await framesOf(world, audienceOf(world, record, all), entries)).flat()
  expect(JSON.stringify(frames)).not.toContain(CANARY)
  expect(texts(frames)).toEqual(['before', 'after'])
})

it('withholds an entry whose projection fails, says so, and goes on', async () => {
  const { record, entries } = await journalAll(world, [
    begin,
    { kind: 'event', event: { event: 'text_delta', data: { text: 'before' } } },
    { kind: 'event', event: { event: 'text_delta', data: { text: CANARY } } },
    { kind: 'event', event: { event: 'text_delta', data: { text: 'after' } } },
  ])
  const failures: unknown[] = []
  const broken = entries.map((e, i) => (i === 2 ? { ...e, payload: '{"event":' } : e))
  const audience = audienceOf(world, record, viewOf('show'))
  const folding = {
    ...world.folding,
    onProjectionFailed: (_: unknown, error: unknown) => failures.push(error),
  }
  const frames = broken.slice(1).flatMap(e => (fold(folding, audience, e) as Frame | null) ?? [])
  expect(texts(frames)).toEqual(['before', 'after'])
  expect(failures).toHaveLength(1)
})

it('never projects answers to one client, argument fragments, traces or foreign attachments', async () => {
  const item = {
    kind: 'tool_result',
    call_id: 'c1',
    summary: 's',
    content: 'c',
    attachments: [
      { kind: 'image', mime_type: 'image/svg+xml', data: CANARY },
      { kind: 'file', mime_type: 'image/png', data: CANARY },
    ],
  }
  const entries = [
    { kind: 'segment_start', ts: 1, system_prompt: 'p', config: { key: CANARY }, history: [] },
    { kind: 'user_input', ts: 1, segments: [], extensions: [CANARY] },
    {
      kind: 'assistant_item',
      ts: 1,
      item: { kind: 'reasoning', text: 't', encrypted_content: CANARY, signature: CANARY },
    },
    { kind: 'tool_result', ts: 1, item },
    { kind: 'config_changed', ts: 1, config: { key: CANARY } },
    { kind: 'extension', ts: 1, domain: CANARY, payload: CANARY },
  ]
  const quiet = ['rewind_targets', 'completions', 'workers_listed', 'worker_restored', 'peer_registered']
  const journaled = await journalAll(world, [
    {
      kind: 'begin',
      event: { event: 'snapshot', data: { entries, status: 'idle', provider_trace: CANARY } },
    },
    ...quiet.map(
      (event): Said => ({
        kind: 'event',
        event: { event, data: { targets: [{ preview: CANARY }], workers: [CANARY], entries: [CANARY] } },
      }),
    ),
    { kind: 'event', event: { event: 'tool_call_args_delta', data: { id: 'c1', json: CANARY } } },
  ])
  const frames = (
    await framesOf(world, audienceOf(world, journaled.record, viewOf('show')), journaled.entries)
  ).flat()
  expect(JSON.stringify(frames)).not.toContain(CANARY)
})

it('masks every leaf of a class that is masked: the text of none of them goes out', async () => {
  for (const masked of CLASSES.filter(c => c !== 'unknown'))
    for (const [event, data] of samples(masked)) {
      const view: View = { ...viewOf('show'), levels: { ...viewOf('show').levels, [masked]: 'mask' } }
      const { record, entries } = await journalAll(world, [begin, { kind: 'event', event: { event, data } }])
      const frames = (await framesOf(world, audienceOf(world, record, view), entries.slice(1))).flat()
      expect(JSON.stringify(frames), `${event} with ${masked} masked`).not.toContain(CANARY)
    }
})

/** Events of the table with the canary in every leaf of a class. */
function samples(of: string): [string, object][] {
  return Object.entries(EVENTS).flatMap(([name, { fields }]) => {
    if (name.startsWith('command.') || name === 'greeting' || name === 'system_prompt') return []
    const data = Object.fromEntries(
      Object.entries(fields).flatMap(([field, shape]) =>
        'leaf' in shape ? [[field, shape.leaf === of ? CANARY : 'x']] : 'id' in shape ? [[field, 'c1']] : [],
      ),
    )
    return Object.values(data).includes(CANARY) ? [[name, data] as [string, object]] : []
  })
}

const texts = (frames: readonly Frame[]): unknown[] =>
  frames.flatMap(f => (f.event === 'envelope' ? [f.data.data.text] : []))
