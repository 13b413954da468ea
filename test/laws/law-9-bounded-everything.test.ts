import { FRAME_BYTES_MAX } from '@shoji/web-contract'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { encode } from '../../src/delivery/frames.ts'
import { asSeq } from '../../src/journal/entry.ts'
import { emptyOpenState, encodeOpenState, LIMITS, openBlocks } from '../../src/journal/open-state.ts'
import { step } from '../../src/journal/step.ts'
import {
  audienceOf,
  framesOf,
  journalAll,
  openWorld,
  runs,
  type Said,
  snapshotAt,
  viewOf,
  type World,
} from './_world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const huge = fc.constantFrom(
  '\u0000'.repeat(90_000),
  '語'.repeat(90_000),
  'x'.repeat(500_000),
  '\ud800'.repeat(70_000),
)
const hugeEvent: fc.Arbitrary<object> = fc.oneof(
  huge.map(text => ({ event: 'text_delta', data: { text } })),
  huge.map(text => ({ event: 'text_done', data: { text } })),
  huge.map(text => ({
    event: 'tool_result',
    data: { id: 'c', summary: text, output: text, is_error: false },
  })),
  huge.map(text => ({ event: 'error', data: { code: text, message: text } })),
  huge.map(text => ({ event: 'novel', data: { [text.slice(0, 2_000)]: text, list: [text, text, text] } })),
  fc.constant({
    event: 'user_message',
    data: { segments: new Array(30_000).fill({ kind: 'text', content: '' }) },
  }),
  huge.map(text => ({
    event: 'internal_worker',
    data: {
      worker: { session_id: text, name: text.slice(0, 60_000) },
      revision: 1,
      event: { event: 'text_delta', data: { text } },
    },
  })),
)

it('no frame is larger than the cap, whatever a Runtime sends, live or in a snapshot', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(hugeEvent, { minLength: 1, maxLength: 6 }), huge, async (events, text) => {
      const entries = new Array(40).fill({
        kind: 'assistant_item',
        ts: 1,
        item: { kind: 'message', role: 'assistant', content: [{ kind: 'text', text }] },
      })
      const greeting = { worker_name: text, cwd: text, scope_summary: text, tools: [text, text] }
      const journaled = await journalAll(world, [
        { kind: 'begin', event: { event: 'snapshot', data: { entries, greeting, status: 'running' } } },
        ...events.map((event): Said => ({ kind: 'event', event })),
      ])
      const audience = audienceOf(world, journaled.record, viewOf('show'))
      const frames = (await framesOf(world, audience, journaled.entries)).flat()
      const snapshot = await snapshotAt(world, audience, journaled, journaled.entries.at(-1)!.seq)
      for (const frame of [...frames, snapshot])
        expect(Buffer.byteLength(encode(frame)), frame.event).toBeLessThanOrEqual(FRAME_BYTES_MAX)
    }),
    runs(12),
  )
})

it('receipts are bounded too: many masked parts neither swell a frame nor tell how many they are', async () => {
  const sizes: number[] = []
  for (const count of [200, 20_000]) {
    const attachments = new Array(count).fill({ kind: 'image', mime_type: 'image/png', data: 'x' })
    const data = { id: 'c', summary: 's', is_error: false, attachments }
    const journaled = await journalAll(world, [
      { kind: 'begin', event: { event: 'snapshot', data: { entries: [], status: 'running' } } },
      { kind: 'event', event: { event: 'tool_result', data } },
    ])
    const audience = audienceOf(world, journaled.record, viewOf('mask'))
    const frames = (await framesOf(world, audience, journaled.entries)).flat()
    for (const frame of frames) expect(Buffer.byteLength(encode(frame))).toBeLessThanOrEqual(FRAME_BYTES_MAX)
    sizes.push(
      frames.at(-1)!.event === 'envelope'
        ? (frames.at(-1)!.data as { withheld?: unknown[] }).withheld!.length
        : 0,
    )
  }
  expect(sizes[0]).toBe(sizes[1])
})

it('what is open is bounded, and what falls out of it is told to have ended', () => {
  const state = emptyOpenState()
  let ended = 0
  for (let i = 1; i <= 6_000; i++) {
    const events = [
      { event: 'tool_call_start', data: { id: `c${i}`, name: 'Bash' } },
      {
        event: 'command',
        data: { event: { kind: 'output', command_id: `k${i}`, stream: 'stdout', content: 'x' } },
      },
      {
        event: 'internal_worker',
        data: { worker: { session_id: `s${i}` }, event: { event: 'text_delta', data: { text: 'x' } } },
      },
    ]
    for (const [n, { event, data }] of events.entries())
      ended += step(state, event, data, { seq: asSeq(i * 3 + n), index: 0 }).ends?.length ?? 0
  }
  expect(state.calls.size).toBeLessThanOrEqual(LIMITS.calls)
  expect(state.commands.size).toBeLessThanOrEqual(LIMITS.commands)
  expect(state.scopes.size).toBeLessThanOrEqual(LIMITS.scopes)
  expect(ended + openBlocks(state).length).toBe(6_000 * 3)
  expect(encodeOpenState(state).length).toBeLessThan(1024 * 1024)
})

it('an internal worker nested without end costs no more than its depth allows', () => {
  let event: object = { event: 'text_delta', data: { text: 'x' } }
  for (let i = 0; i < 5_000; i++)
    event = { event: 'internal_worker', data: { worker: { session_id: `s${i}` }, event } }
  const state = emptyOpenState()
  expect(() =>
    step(state, 'internal_worker', (event as { data: Record<string, unknown> }).data, {
      seq: asSeq(1),
      index: 0,
    }),
  ).not.toThrow()
  expect(state.scopes.size).toBeLessThanOrEqual(1)
})
