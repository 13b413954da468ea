import type { Frame, Item } from '@shoji/web-contract'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readItems } from '../../src/delivery/history.ts'
import { pageTag } from '../../src/delivery/selection.ts'
import { asSeq, type Seq } from '../../src/journal/entry.ts'
import {
  anyStream,
  anyView,
  audienceOf,
  comparable,
  framesOf,
  journalAll,
  openWorld,
  reduceAll,
  runs,
  snapshotAt,
  type World,
  workerOf,
} from './_world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

it('reduces a snapshot and the frames after it to what all frames reduce to, for every cut and size', async () => {
  await fc.assert(
    fc.asyncProperty(anyStream(), anyView, fc.nat(), fc.nat({ max: 12 }), async (said, view, at, history) => {
      const journaled = await journalAll(world, said)
      const { record, entries } = journaled
      const all = await framesOf(world, audienceOf(world, record, view), entries)
      const whole = workerOf(reduceAll(all.flat()), record)
      const cut = at % entries.length
      const position = entries[cut]!.seq
      const audience = audienceOf(world, record, view, history)
      const snapshot = await snapshotAt(world, audience, journaled, position)
      const after = await framesOf(world, audience, entries.slice(cut + 1))
      const joined = workerOf(reduceAll([snapshot, ...after.flat()]), record)!
      if (whole === undefined) return expect(joined).toMatchObject({ items: [], status: null })
      expect(comparable(joined, history)).toEqual(comparable(whole, history))
    }),
    runs(400),
  )
})

it('pages behind a snapshot, joined, are the rest of its list', async () => {
  await fc.assert(
    fc.asyncProperty(
      anyStream(),
      anyView,
      fc.nat(),
      fc.nat({ max: 5 }),
      fc.integer({ min: 1, max: 4 }),
      async (said, view, at, history, size) => {
        const journaled = await journalAll(world, said)
        const { record, entries } = journaled
        const cut = at % entries.length
        const through = entries[cut]!.seq
        const whole = workerOf(
          reduceAll(
            (await framesOf(world, audienceOf(world, record, view), entries.slice(0, cut + 1))).flat(),
          ),
          record,
        )
        const audience = audienceOf(world, record, view, history)
        const snapshot = await snapshotAt(world, audience, journaled, through)
        const items = await pagesBehind(world, audience, snapshot, through, size)
        expect([...items, ...snapshot.data.state.items]).toEqual(whole?.items ?? [])
      },
    ),
    runs(200),
  )
})

async function pagesBehind(
  { folding, journal }: World,
  audience: ReturnType<typeof audienceOf>,
  snapshot: Extract<Frame, { event: 'snapshot' }>,
  through: Seq,
  size: number,
): Promise<Item[]> {
  const sight = [...audience.streams.values()][0]!
  const replacing = await journal.readReplacing(sight.record.id, through)
  const items: Item[] = []
  let { earlier } = snapshot.data
  while (earlier !== null) {
    const tag = pageTag(journal.keys.id, audience.policy, audience.subject, sight.record.id)
    const decoded = folding.cursors.decodePage(earlier, tag)
    if (!decoded.ok) throw new Error(decoded.reason)
    const page = await readItems(folding, sight, {
      before: decoded.key,
      through,
      replacing: asSeq(replacing?.seq ?? 0),
      maxItems: size,
      maxBytes: 1e6,
    })
    items.unshift(...page.items)
    earlier = page.earlier === null ? null : folding.cursors.encodePage(page.earlier, tag)
  }
  return items
}
