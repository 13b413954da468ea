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
  const streams = workers.map(worker => worker.writer.record.id)
  const page = await stage.journal.readAfter(streams, start, { maxRows: 1e6, maxBytes: 1e9 })
  // But for the first: what it began with.
  expect(witness.seqs.slice(1), `seed ${seed}`).toEqual(page.entries.map(entry => entry.seq))
})

it('case 5: viewers who come without a cursor while entries are committed all end in the same state', {
  timeout: 120_000,
}, async () => {
  const seed = Math.floor(Math.random() * 2 ** 32)
  const random = seededRandom(seed)
  await using stage = await openStage({ wrap: journal => withDelays(journal, random) })
  const workers = [await stage.worker('a'), await stage.worker('b'), await stage.worker('c')]
  for (let round = 0; round < 20; round++) {
    const viewers = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const worker = workers[Math.floor(random() * workers.length)]!
        await pause(random)
        if (random() < 0.05) worker.begin()
        else if (random() < 0.2) worker.say(`text ${Math.floor(random() * 1e9)}`)
        else if (random() < 0.1) worker.event('text_done', { text: `done ${Math.floor(random() * 1e9)}` })
        else worker.delta(`${Math.floor(random() * 100)} `)
        return stage.connect()
      }),
    )
    for (const worker of workers) worker.say(`end ${round}`)
    for (const viewer of viewers) {
      const all = (v: StageViewer): boolean =>
        Object.values(v.state.workers).filter(w => JSON.stringify(w.state.items).includes(`"end ${round}"`))
          .length === workers.length
      await viewer.until(all, `seed ${seed}: the end of round ${round}`)
    }
    const [first, ...others] = viewers.map(viewer => viewer.state.workers)
    for (const other of others) expect(Object.keys(other)).toEqual(Object.keys(first!))
    for (const other of others)
      for (const [name, entry] of Object.entries(first!))
        expect(other[name]?.state, `seed ${seed}`).toEqual(entry.state)
    for (const viewer of viewers) viewer.close()
  }
})

it('delivers to viewers who stop reading and go on at any moment what they missed, once and in order', {
  timeout: 120_000,
}, async () => {
  const seed = Math.floor(Math.random() * 2 ** 32)
  const random = seededRandom(seed)
  // One buffer that holds a burst and one that holds next to nothing.
  for (const bufferedBytes of [4 * 1024 * 1024, 20_000]) {
    await using stage = await openStage({ limits: { bufferedBytes, heartbeatMs: 20 } })
    const worker = await stage.worker('w')
    using witness = stage.connect()
    const slow = Array.from({ length: 5 }, () => stage.connect())
    for (const viewer of [witness, ...slow])
      await viewer.until(v => v.frames.some(f => f.event === 'caught_up'), 'the head')
    const padding = 'x'.repeat(100_000)
    for (let n = 0; n < 400; n++) {
      const viewer = slow[Math.floor(random() * slow.length)]!
      if (random() < 0.5) viewer.pause()
      else viewer.resume()
      if (random() < 0.02) worker.begin()
      else worker.say(random() < 0.5 ? `${n}` : `${n} ${padding}`)
      if (random() < 0.3) await stage.journal.durable(stage.ingest.position)
    }
    worker.say('the end')
    await witness.until(sawText('the end'), `seed ${seed}: the witness`)
    for (const viewer of slow) {
      viewer.resume()
      await viewer.until(v => v.seqs.at(-1) === witness.seqs.at(-1), `seed ${seed}: a slow viewer`)
      expect(viewer.seqs, `seed ${seed}, ${bufferedBytes} bytes`).toEqual(witness.seqs)
      viewer.close()
    }
  }
})

it('shows what is durable to those who come while the journal cannot be written, and the rest when it can', async () => {
  await using stage = await openStage()
  const worker = await stage.worker('w')
  worker.say('durable')
  await stage.journal.durable(stage.ingest.position)
  const healthy = new Promise<void>(resolve => {
    const stop = stage.journal.onHealth(health => {
      if (health.state !== 'ok') return
      stop()
      resolve()
    })
  })
  const failed = new Promise<void>(resolve => {
    const stop = stage.journal.onHealth(({ state }) => {
      if (state === 'ok') return
      stop()
      resolve()
    })
  })
  await stage.journal.faults.limitPages(0)
  worker.say(`under way ${'x'.repeat(200_000)}`)
  const waiting = stage.connect()
  await failed
  using late = stage.connect()
  for (const viewer of [waiting, late]) {
    await viewer.until(v => v.frames.some(f => f.event === 'caught_up'), 'what is durable')
    expect(JSON.stringify(viewer.frames)).toContain('durable')
    expect(JSON.stringify(viewer.frames)).not.toContain('under way')
    await viewer.until(v => v.frames.some(f => f.event === 'status'), 'why')
    expect(viewer.frames.at(-1)?.data).toMatchObject({ runtime: 'rt', upstream: 'journal_unavailable' })
  }
  await stage.journal.faults.limitPages(null)
  await healthy
  worker.say('the end')
  for (const viewer of [waiting, late]) {
    await viewer.until(sawText('the end'), 'the rest')
    expect(viewer.frames.filter(f => f.event === 'envelope')).toHaveLength(2)
  }
  waiting.close()
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
