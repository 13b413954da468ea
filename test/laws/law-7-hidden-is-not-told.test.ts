import type { Frame } from '@shoji/web-contract'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { encode } from '../../src/delivery/frames.ts'
import type { View } from '../../src/projection/view.ts'
import {
  anyEvent,
  anySnapshot,
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

const dropping = (view: View, ...classes: (keyof View['levels'])[]): View => ({
  ...view,
  levels: { ...view.levels, ...Object.fromEntries(classes.map(c => [c, 'drop'])) },
})

/** Events that touch nothing but classes the viewer has no right to. */
const hidden = fc.constantFrom<object>(
  { event: 'alert', data: { level: 'warn', source: 's', message: 'm', timestamp_ms: 1 } },
  { event: 'usage', data: { input_tokens: 5 } },
  { event: 'memory_worker', data: { worker: 'w', message: 'm' } },
  { event: 'system_item', data: { item: { kind: 'notification', message: 'm', body: 'b' } } },
  { event: 'never_heard_of', data: { a: 1 } },
  { event: 'rewind_targets', data: { targets: [] } },
)

it('shows a viewer the same bytes, ids aside, whether hidden events happen or not', async () => {
  await fc.assert(
    fc.asyncProperty(
      anySnapshot,
      fc.array(fc.tuple(anyEvent, fc.array(hidden, { maxLength: 3 })), { maxLength: 15 }),
      anyView,
      async (snapshot, said, any) => {
        const view = dropping(any, 'diagnostics', 'usage', 'system', 'unknown')
        const quiet: Said[] = [{ kind: 'begin', event: snapshot }]
        const busy: Said[] = [{ kind: 'begin', event: snapshot }]
        for (const [event, others] of said) {
          quiet.push({ kind: 'event', event })
          busy.push({ kind: 'event', event }, ...others.map((event): Said => ({ kind: 'event', event })))
        }
        const one = await told(quiet, view)
        const two = await told(busy, view)
        expect(two.map(f => f.shape)).toEqual(one.map(f => f.shape))
        expect(two.map(f => f.bytes)).toEqual(one.map(f => f.bytes))
      },
    ),
    runs(150),
  )
})

/** What a viewer can tell of each frame but the values of ids, and how large it is. */
async function told(said: readonly Said[], view: View): Promise<{ shape: string; bytes: number }[]> {
  const { record, entries } = await journalAll(world, said)
  const frames = (await framesOf(world, audienceOf(world, record, view), entries)).flat()
  return frames.map(frame => ({
    shape: anonymous(frame),
    bytes: encode(frame).length - record.worker.length,
  }))
}

function anonymous(frame: Frame): string {
  const names = new Map<string, string>()
  const own = (id: string): string => {
    if (!names.has(id)) names.set(id, `id${names.size}`)
    return names.get(id)!
  }
  return JSON.stringify({ event: frame.event, data: frame.data }, (key, value) => {
    if (key === 'worker' || key === 'time') return undefined
    return typeof value === 'string' && /^[\w-]{22}$|^[\w-]{43}$/.test(value) ? own(value) : value
  })
}

it('announces a gap to everyone who sees anything, and to nobody else', async () => {
  await fc.assert(
    fc.asyncProperty(anyStream(5), anyView, async (said, view) => {
      const { record, entries } = await journalAll(world, [...said, { kind: 'gap' }])
      const last = (await framesOf(world, audienceOf(world, record, view), entries)).at(-1)!
      const blind = Object.values(view.levels).every(level => level === 'drop')
      expect(last.map(f => f.event)).toEqual(blind ? [] : ['gap'])
    }),
    runs(60),
  )
  const { record, entries } = await journalAll(world, [
    { kind: 'begin', event: { event: 'snapshot', data: { entries: [], status: 'idle' } } },
    { kind: 'gap' },
  ])
  expect((await framesOf(world, audienceOf(world, record, viewOf('drop')), entries)).flat()).toEqual([])
})
