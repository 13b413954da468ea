import type { Frame } from '@shoji/web-contract'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { coalesce } from '../../src/delivery/coalesce.ts'
import { createLists } from '../../src/delivery/lists.ts'
import type { Entry } from '../../src/journal/entry.ts'
import {
  anyStream,
  anyView,
  audienceOf,
  framesOf,
  journalAll,
  openWorld,
  reduceAll,
  runs,
  viewOf,
  type World,
} from './_world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const withoutIds = (frames: readonly Frame[]): object[] => frames.map(({ id: _, ...rest }) => rest)

/** The same entries as another process reads them: nothing of what was parsed or expanded before is shared. */
const readAgain = (entries: readonly Entry[]): Entry[] =>
  entries.map(e => ({ ...e, context: structuredClone(e.context) }))

const another = (): World => ({ ...world, folding: { ...world.folding, lists: createLists() } })

it('gives the same frames wherever the stream is cut', async () => {
  await fc.assert(
    fc.asyncProperty(anyStream(), anyView, fc.nat(), async (said, view, at) => {
      const { record, entries } = await journalAll(world, said)
      const whole = await framesOf(world, audienceOf(world, record, view), entries)
      const cut = at % (entries.length + 1)
      const before = await framesOf(
        another(),
        audienceOf(world, record, view),
        readAgain(entries.slice(0, cut)),
      )
      const after = await framesOf(another(), audienceOf(world, record, view), readAgain(entries.slice(cut)))
      expect(withoutIds([...before, ...after].flat().filter(notPage))).toEqual(
        withoutIds(whole.flat().filter(notPage)),
      )
    }),
    runs(200),
  )
})

/** Page cursors in snapshots are salted; their places are law 5's. */
const notPage = (frame: Frame): boolean => frame.event !== 'snapshot' || frame.data.earlier === null

it('gives at most one frame an entry, or one burst whose last frame alone has an id', async () => {
  await fc.assert(
    fc.asyncProperty(anyStream(), anyView, async (said, view) => {
      const { record, entries } = await journalAll(world, said)
      for (const frames of await framesOf(world, audienceOf(world, record, view), entries)) {
        if (frames.length === 1) expect(frames[0]!.id).toBeDefined()
        if (frames.length <= 1) continue
        expect(frames.map(f => f.event).at(-1)).toBe('caught_up')
        expect(frames.map(f => f.id !== undefined)).toEqual(frames.map((_, i) => i === frames.length - 1))
      }
    }),
    runs(150),
  )
})

it('reduces coalesced frames to what the frames reduce to, for every page size', async () => {
  await fc.assert(
    fc.asyncProperty(
      anyStream(60),
      anyStream(20),
      fc.oneof(anyView, fc.constant(viewOf('show'))),
      fc.integer({ min: 1, max: 30 }),
      async (one, two, view, size) => {
        const first = await journalAll(world, one)
        const second = await journalAll(world, two)
        const a = (await framesOf(world, audienceOf(world, first.record, view), first.entries)).flat()
        const b = (await framesOf(world, audienceOf(world, second.record, view), second.entries)).flat()
        const frames = interleave(a, b)
        const pages: Frame[] = []
        for (let i = 0; i < frames.length; i += size) pages.push(...coalesce(frames.slice(i, i + size)))
        expect(reduceAll(pages)).toEqual(reduceAll(frames))
        expect(pages.length).toBeLessThanOrEqual(frames.length)
        expect(pages.filter(f => f.id !== undefined).at(-1)?.id).toBe(
          frames.filter(f => f.id !== undefined).at(-1)?.id,
        )
      },
    ),
    runs(300),
  )
})

it('joins the deltas of a block and leaves out those that its end repeats', async () => {
  const delta = (text: string) => ({ kind: 'event' as const, event: { event: 'text_delta', data: { text } } })
  const snapshot = { event: 'snapshot', data: { entries: [], status: 'running' } }
  const { record, entries } = await journalAll(world, [
    { kind: 'begin', event: snapshot },
    ...[...'abcdefgh'].map(delta),
  ])
  const frames = (await framesOf(world, audienceOf(world, record, viewOf('show')), entries)).flat()
  const joined = coalesce(frames).filter(f => f.event === 'envelope')
  expect(joined).toHaveLength(1)
  expect(joined[0]!.data).toMatchObject({ data: { text: 'abcdefgh' }, begins: true })
  expect(joined[0]!.id).toBe(frames.at(-1)!.id)
})

/** Two workers' frames as one stream, bursts kept whole. */
function interleave(a: readonly Frame[], b: readonly Frame[]): Frame[] {
  const out: Frame[] = []
  const chunks = (frames: readonly Frame[]): Frame[][] => {
    const list: Frame[][] = [[]]
    for (const frame of frames) {
      list.at(-1)!.push(frame)
      if (frame.id !== undefined) list.push([])
    }
    return list
  }
  const [left, right] = [chunks(a), chunks(b)]
  for (let i = 0; i < Math.max(left.length, right.length); i++)
    out.push(...(left[i] ?? []), ...(right[i] ?? []))
  return out
}
