/** What happens between reading a page and standing at the head. Rounds: `SHOJI_ROUNDS`, default 2,000. */
import { expect, it } from 'vitest'
import { asSeq } from '../../src/journal/entry.ts'
import type { Journal, Page } from '../../src/journal/journal.ts'
import { eventually } from '../_support/flow.ts'
import { openStage, type StageViewer } from '../_support/stage.ts'
import { pause, seededRandom, withDelays } from '../_support/with-delays.ts'

const ROUNDS = Number(process.env.SHOJI_ROUNDS ?? 2_000)
const AT_ONCE = 50

const sawText =
  (text: string) =>
  ({ frames }: StageViewer): boolean =>
    frames.some(f => f.event === 'envelope' && JSON.stringify(f.data.data).includes(`"${text}"`))

it(`case 5: of ${ROUNDS} viewers who subscribe with a cursor while entries are committed, none misses one or gets it twice`, {
  timeout: 600_000,
}, async () => {
  const seed = Math.floor(Math.random() * 2 ** 32)
  const random = seededRandom(seed)
  await using stage = await openStage({ wrap: journal => withDelays(journal, random) })
  const workers = [await stage.worker('a'), await stage.worker('b'), await stage.worker('c')]
  const start = stage.journal.head
  using witness = stage.connect()
  await witness.until(v => v.frames.some(f => f.event === 'caught_up'), 'the head')
  for (let round = 0; round < ROUNDS; round += AT_ONCE) {
    const end = `end ${round}`
    const viewers = await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        await pause(random)
        const cursor = asSeq(Math.max(start, stage.journal.head - Math.floor(random() * 20)))
        const viewer = stage.connect({ cursor })
        const worker = workers[Math.floor(random() * workers.length)]!
        await pause(random)
        if (random() < 0.05) worker.begin()
        else worker.say(`text ${Math.floor(random() * 1e9)}`)
        return { viewer, cursor }
      }),
    )
    workers[0]!.say(end)
    await witness.until(sawText(end), `seed ${seed}: the witness`)
    const last = witness.seqs.at(-1)!
    for (const { viewer, cursor } of viewers) {
      await viewer.until(v => (v.seqs.at(-1) ?? 0) >= last, `seed ${seed}: a viewer from ${cursor}`)
      expect(viewer.seqs, `seed ${seed}`).toEqual(witness.seqs.filter(seq => seq > cursor))
      viewer.close()
    }
  }
})

it('case 88: an entry committed between an empty page and the wait for the next is delivered', async () => {
  let between: (() => Promise<void>) | undefined
  const wrap = (journal: Journal): Journal =>
    new Proxy(journal, {
      get(target, name) {
        if (name !== 'readAfter') return Reflect.get(target, name, target)
        return async (...args: Parameters<Journal['readAfter']>): Promise<Page> => {
          const page = await target.readAfter(...args)
          if (page.entries.length === 0 && page.atHead && between !== undefined) {
            const happens = between
            between = undefined
            await happens()
          }
          return page
        }
      },
    })
  await using stage = await openStage({ wrap })
  const worker = await stage.worker('w')
  const say = async (text: string): Promise<void> => {
    worker.say(text)
    await stage.journal.durable(stage.ingest.position)
  }
  between = () => say('between the page and the join')
  using first = stage.connect({ cursor: stage.journal.head })
  await first.until(sawText('between the page and the join'), 'alone')
  between = () => say('beside a group')
  using second = stage.connect({ cursor: stage.journal.head })
  await second.until(sawText('beside a group'), 'beside a group')
  await first.until(sawText('beside a group'), 'in the group')
  expect([first.seqs.length, second.seqs.length]).toEqual([2, 1])
})

it('case 88: waiting for the head to pass a position that it has passed already resolves at once', async () => {
  await using stage = await openStage()
  const worker = await stage.worker('w')
  const { head } = stage.journal
  const page = await stage.journal.readAfter([worker.writer.record.id], head, {
    maxRows: 10,
    maxBytes: 1_000,
  })
  expect(page).toMatchObject({ entries: [], atHead: true })
  worker.say('in between')
  await stage.journal.durable(stage.ingest.position)
  expect(await stage.journal.changedSince(head, AbortSignal.timeout(5_000))).toBe(stage.journal.head)
})

it('tells members of a group of a view that the one who joins has seen first', async () => {
  await using stage = await openStage()
  const worker = await stage.worker('w')
  stage.views = [{ runtime: 'rt', worker: 'w', classes: {}, commands: [] }]
  using first = stage.connect()
  await first.until(v => v.frames.some(f => f.event === 'caught_up'), 'the head')
  worker.say('one')
  await first.until(sawText('one'), 'live')
  stage.views = [{ runtime: 'rt', worker: 'w', classes: { usage: 'show' }, commands: [] }]
  using second = stage.connect()
  await second.until(v => v.frames.some(f => f.event === 'caught_up'), 'the head')
  worker.say('two')
  await first.until(sawText('two'), 'live')
  await second.until(sawText('two'), 'live')
  expect(first.frames.filter(f => f.event === 'view').map(f => f.data)).toEqual([
    { policy: 'p', views: stage.views },
  ])
  expect(second.frames.filter(f => f.event === 'view')).toEqual([])
})

it("closes a user's oldest streams for newer ones, however many come at once", async () => {
  await using stage = await openStage({ limits: { streamsPerUser: 2 } })
  await stage.worker('w')
  const viewers = Array.from({ length: 12 }, () => stage.connect())
  const open = () => viewers.filter(v => !v.ended)
  await eventually(() => open().length === 2, 'two are left')
  for (const viewer of open()) await viewer.until(v => v.frames.at(-1)?.event === 'caught_up', 'the head')
  expect(open()).toHaveLength(2)
})
