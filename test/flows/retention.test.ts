/** What is deleted while viewers hold cursors from before it. The single steps of an expiry: `expiry.test.ts`. */
import { emptyClientState, type Frame, reduce } from '@shoji/web-contract'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { asSeq } from '../../src/journal/entry.ts'
import type { SqliteJournal } from '../../src/journal/sqlite/journal.ts'
import {
  delta,
  done,
  eventually,
  QUICK,
  saw,
  startFlow,
  startRoomyRuntime,
  stateOf,
  tell,
  textsOf,
} from '../_support/flow.ts'
import { startShoji } from '../_support/shoji.ts'
import { openStage, type Stage, type StageViewer, type StageWorker } from '../_support/stage.ts'
import { comparable, runs } from '../laws/_world.ts'

type Act = 'say' | 'delta' | 'done' | 'call' | 'result' | 'end' | 'begin'

const ACTS = fc.constantFrom<Act>(
  ...(['say', 'say', 'delta', 'delta', 'done', 'call', 'result', 'end', 'end', 'begin'] as const),
)
const WORKERS = ['a', 'b', 'c'] as const
const script = fc.array(fc.record({ who: fc.nat(WORKERS.length - 1), act: ACTS }), {
  minLength: 5,
  maxLength: 60,
})

function perform(worker: StageWorker, act: Act, n: number): void {
  if (act === 'say') worker.say(`say ${n}`)
  if (act === 'delta') worker.delta(`${n} `)
  if (act === 'done') worker.event('text_done', { text: `done ${n}` })
  if (act === 'call') worker.event('tool_call_start', { id: `c${n % 3}`, name: 'Bash' })
  if (act === 'result') worker.event('tool_result', { id: `c${n % 3}`, summary: `${n}`, is_error: false })
  if (act === 'end') worker.event('run_end', { result: 'finished' })
  if (act === 'begin') worker.begin()
}

const reduceAll = (frames: readonly Frame[], state = emptyClientState()) => frames.reduce(reduce, state)

/** Where a client stands behind each frame, as the ids tell it. */
function positionsOf(stage: Stage, { frames }: StageViewer, from: number): number[] {
  let at = from
  return frames.map(({ id }) => {
    const decoded = id === undefined ? null : stage.folding.cursors.decode(id, stage.audience().tag)
    if (decoded?.ok) at = decoded.seq
    return at
  })
}

/** Connected, and everything up to the head is read. */
const atHead = (stage: Stage, viewer: StageViewer): Promise<StageViewer> =>
  viewer.until(
    v => v.frames.at(-1)?.event === 'caught_up' && positionsOf(stage, v, 0).at(-1) === stage.journal.head,
    `position ${stage.journal.head}`,
  )

it('resets exactly the workers of which something is deleted, and neither loses nor doubles a frame, at every cut', async () => {
  let expiries = 0
  await fc.assert(
    fc.asyncProperty(
      script,
      fc.nat(),
      fc.nat(),
      fc.oneof(
        fc.record({ maxEntries: fc.nat(20) }),
        fc.record({ age: fc.double({ min: 0, max: 1.1, noNaN: true }) }),
      ),
      async (acts, at, cutAt, rule) => {
        await using stage = await openStage()
        const workers = await Promise.all(WORKERS.map(name => stage.worker(name)))
        stage.views = WORKERS.map(worker => ({ runtime: 'rt', worker, classes: {}, commands: [] }))
        const first = stage.journal.head
        for (const [n, { who, act }] of acts.entries()) perform(workers[who]!, act, n)
        await stage.journal.durable(stage.ingest.position)
        // A viewer of everything, and what it knew where the other was cut off.
        using whole = stage.connect({ cursor: first })
        await atHead(stage, whole)
        const known = at % whole.frames.length
        const cursor = asSeq(positionsOf(stage, whole, first)[known]!)
        const start = reduceAll(whole.frames.slice(0, known + 1))
        const rules = 'age' in rule ? { maxAgeMs: 0 } : rule
        const oldest = stage.journal.head - acts.length
        await stage.journal.retain(rules, 'age' in rule ? Math.round(oldest + rule.age * acts.length) : 0)
        const records = await stage.journal.streams()
        const expired = new Set(records.filter(r => r.lastDeleted > cursor).map(r => r.worker))
        expiries += expired.size

        using resumed = stage.connect({ cursor })
        await atHead(stage, resumed)
        const resets = resumed.frames.flatMap(f =>
          f.event === 'reset' && f.data.reason === 'cursor_expired' ? [f.data.worker] : [],
        )
        expect(new Set(resets)).toEqual(expired)
        expect(resets).toHaveLength(expired.size)
        expect(resumed.frames.filter(f => f.event === 'caught_up').length).toBeGreaterThanOrEqual(1)

        // Cut behind any frame and resumed by the last id: the same end.
        const cut = cutAt % resumed.frames.length
        const before = reduceAll(resumed.frames.slice(0, cut), start)
        using again = stage.connect({ cursor: asSeq(positionsOf(stage, resumed, cursor)[cut - 1] ?? cursor) })
        await atHead(stage, again)
        const joined = reduceAll(again.frames, before)
        using fresh = stage.connect()
        await atHead(stage, fresh)
        const kept = reduceAll(fresh.frames)
        const all = reduceAll(whole.frames)
        for (const name of WORKERS) {
          const key = `rt/${name}`
          const expected = (expired.has(name) ? kept : all).workers[key]
          for (const state of [reduceAll(resumed.frames, start), joined]) {
            const got = state.workers[key]
            if (expected === undefined) expect(got?.state.items ?? []).toEqual([])
            else expect(comparable(got!.state, 1_000)).toEqual(comparable(expected.state, 1_000))
          }
        }
      },
    ),
    runs(40),
  )
  expect(expiries).toBeGreaterThan(0)
}, 300_000)

it('a worker of which everything is deleted by age is reset to what is kept of it: nothing', async () => {
  await using stage = await openStage()
  const worker = await stage.worker('w')
  const other = await stage.worker('other')
  const cursor = stage.journal.head
  for (let n = 0; n < 10; n++) worker.say(`gone ${n}`)
  await stage.journal.durable(stage.ingest.position)
  await stage.journal.retain({ maxAgeMs: 0 }, 1e6)
  other.say('kept')
  await stage.journal.durable(stage.ingest.position)
  using resumed = stage.connect({ cursor })
  await atHead(stage, resumed)
  const told = resumed.frames.map(f => (f.event === 'reset' ? `reset ${f.data.worker}` : f.event))
  expect(told).toEqual(['hello', 'reset w', 'snapshot', 'caught_up', 'envelope', 'caught_up'])
  const { workers } = reduceAll(resumed.frames)
  expect(workers['rt/w']?.state).toMatchObject({ items: [], open: { blocks: [], calls: [] } })
  worker.say('again')
  await resumed.until(v => JSON.stringify(v.frames.at(-1)).includes('"again"'), 'what follows, live')
  expect(resumed.frames.filter(f => f.event === 'reset')).toHaveLength(1)
})

it('deletes by the rules of the configuration while it serves, and viewers at the head notice nothing', async () => {
  let journal: SqliteJournal | undefined
  await using flow = await startFlow({
    extra: 'journal: { retain: { entries: 1000 } }',
    overrides: {
      ...QUICK,
      retainEveryMs: 20,
      onJournal(opened) {
        journal = opened
      },
    },
  })
  const { worker } = flow
  using live = await flow.open({ timeoutMs: 30_000 })
  await live.untilLive()
  const early = live.position!
  const entries = async (): Promise<number> => (await journal!.stats()).entries
  for (let round = 0; round < 30; round++) {
    for (let n = 0; n < 50; n++) delta(worker, `${n} `)
    done(worker, `round ${round}`)
    worker.emit({ event: 'run_end', data: { result: 'finished' } })
  }
  await live.until(saw(worker, 'round 29'), 'all of it')
  // The list on screen is kept whole by this rule, so nothing of it goes before another replaces it.
  expect(await entries()).toBeGreaterThan(1_500)
  worker.emit({ event: 'rewind_applied', data: { entries: [], input: [], summary: {} } })
  await eventually(async () => (await entries()) <= 1_000, 'the rest is deleted')
  tell(worker, 'after it')
  await live.until(saw(worker, 'after it'), 'live')
  expect(live.frames.filter(f => f.event === 'reset').map(f => f.data)).toMatchObject([{ reason: 'rewound' }])
  using late = await flow.open({ lastEventId: early })
  await late.until(saw(worker, 'after it'), 'the end')
  expect(late.frames.filter(f => f.event === 'reset').map(f => f.data)).toMatchObject([
    { reason: 'cursor_expired' },
    { reason: 'rewound' },
  ])
  expect(textsOf(late.state, worker)).toEqual(['after it'])
  expect(stateOf(late.state, worker)).toEqual(stateOf(live.state, worker))
})

it('applies its rules to each Runtime by itself: a busy one deletes nothing of another', async () => {
  await using busy = await startRoomyRuntime()
  await using quiet = await startRoomyRuntime()
  const loud = busy.addWorker({ log: 'off' })
  const still = quiet.addWorker({ log: 'off' })
  let journal: SqliteJournal | undefined
  await using _ = await startShoji({
    runtimes: [
      { id: 'busy', url: busy.url },
      { id: 'quiet', url: quiet.url },
    ],
    extra: 'journal: { retain: { entries: 1000 } }',
    overrides: {
      ...QUICK,
      retainEveryMs: 20,
      onJournal(opened) {
        journal = opened
      },
    },
  })
  const replaced = { event: 'rewind_applied', data: { entries: [], input: [], summary: {} } }
  await eventually(() => loud.observers.size === 1 && still.observers.size === 1, 'both are connected')
  for (let n = 0; n < 900; n++) tell(still, `${n}`)
  still.emit(replaced)
  for (let n = 0; n < 1_500; n++) tell(loud, `${n}`)
  loud.emit(replaced)
  const deletedOf = async (runtime: string): Promise<number> =>
    (await journal!.streams()).find(stream => stream.runtime === runtime)?.lastDeleted ?? 0
  await eventually(async () => (await deletedOf('busy')) > 0, 'the busy one is deleted from')
  expect(await deletedOf('quiet')).toBe(0)
  expect((await journal!.stats()).entries).toBeGreaterThan(900)
})

it('case 65: half of a big journal is deleted and replayed while a viewer at the head hears each event at once', async () => {
  let journal: SqliteJournal | undefined
  await using flow = await startFlow({
    workers: 2,
    overrides: {
      ...QUICK,
      onJournal(opened) {
        journal = opened
      },
    },
  })
  const [big, small] = flow.workers as [typeof flow.worker, typeof flow.worker]
  using witness = await flow.open({ worker: big, timeoutMs: 60_000 })
  await witness.untilLive()
  const start = witness.position!
  const runsOf = 300
  for (let run = 0; run < runsOf; run++) {
    for (let n = 0; n < 98; n++) delta(big, `${n} `)
    done(big, `run ${run}`)
    big.emit({ event: 'run_end', data: { result: 'finished' } })
    if (run % 20 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  // Another list from here on, so that all before it may go.
  big.emit({ event: 'rewind_applied', data: { entries: [], input: [], summary: {} } })
  tell(big, 'the end')
  await witness.until(saw(big, 'the end'), 'all of it')
  const { entries } = await journal!.stats()
  expect(entries).toBeGreaterThan(runsOf * 100)

  using live = await flow.open({ worker: small, timeoutMs: 60_000 })
  await live.untilLive()
  const lateMs: number[] = []
  let busy = true
  const work = Promise.all([
    journal!.retain({ maxEntries: Math.floor(entries / 2) }, Date.now()),
    ...Array.from({ length: 3 }, async () => {
      using replay = await flow.open({ worker: big, lastEventId: start, timeoutMs: 60_000 })
      await replay.until(saw(big, 'the end'), 'the replay')
      return replay.state
    }),
  ]).finally(() => {
    busy = false
  })
  for (let n = 0; busy || n < 50; n++) {
    const began = performance.now()
    tell(small, `tick ${n}`)
    await live.until(saw(small, `tick ${n}`), 'a tick')
    lateMs.push(performance.now() - began)
  }
  const [{ deleted }, ...states] = await work
  expect(deleted).toBeGreaterThan(entries / 3)
  expect((await journal!.stats()).entries).toBeLessThanOrEqual(entries / 2 + lateMs.length + 200)
  for (const state of states) expect(textsOf(state, big)).toEqual(['the end'])
  expect(textsOf(live.state, small)).toEqual(lateMs.map((_, n) => `tick ${n}`))
  // No measure of speed, which is the bench's: but nobody waits for a whole deletion or a whole replay.
  const late = [...lateMs].sort((a, b) => a - b)
  expect(late[Math.floor(late.length / 2)]).toBeLessThan(250)
  expect(late.at(-1)).toBeLessThan(3_000)
}, 180_000)
