/**
 * The cases of continuity and the ten traps of the Runtime's protocol, each done by a Runtime to a whole server.
 * What counts is what a viewer ends up with: nothing twice, nothing missing without a word, no false reset.
 */
import type { ClientState } from '@shoji/web-contract'
import { expect, it } from 'vitest'
import type { Generation, RuntimeEvent } from '../../src/embedded-runtime/events.ts'
import { status } from '../../src/embedded-runtime/events.ts'
import { notification } from '../../src/embedded-runtime/fold.ts'
import { type Misbehaviour, misbehave, unavailable } from '../../src/embedded-runtime/misbehave.ts'
import { type EmbeddedRuntime, startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'
import { eventually, QUICK, saw, stateOf, textOf, untilKnown } from '../_support/flow.ts'
import { type RunningShoji, startShoji, TOKENS } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'

const OVERRIDES = {
  ...QUICK,
  runtimeLimits: { ...QUICK.runtimeLimits, mismatchMs: 300, resyncEveryMs: 50 },
}
/** What the Runtime keeps of all workers together. */
const RETAINED = 64

interface Options {
  readonly generation?: Generation
  readonly store?: 'none' | 'memory-store'
  readonly workers?: number
  /** What the first worker did before anybody observed it. */
  readonly before?: (worker: EmbeddedWorker, wrong: Misbehaviour) => void
}

/** Texts of the items, as a reader sees them; the system prompt stands in snapshots alone. */
const conversationOf = (state: ClientState, worker: EmbeddedWorker): string[] =>
  stateOf(state, worker)
    .items.filter(item => item.kind !== 'system_prompt')
    .map(textOf)

class Stage implements AsyncDisposable {
  readonly runtime: EmbeddedRuntime
  readonly wrong: Misbehaviour
  shoji: RunningShoji
  stream: TestStream

  private constructor(runtime: EmbeddedRuntime, shoji: RunningShoji, stream: TestStream) {
    this.runtime = runtime
    this.wrong = misbehave(runtime)
    this.shoji = shoji
    this.stream = stream
  }

  /** A Runtime, its workers, a server before them, and a viewer of them all who is live. */
  static async set({ generation = 'events-ws', store = 'none', workers = 1, before }: Options = {}) {
    const runtime = await startEmbeddedRuntime({ generation, store, backlogEvents: RETAINED })
    for (let n = 0; n < workers; n++) runtime.addWorker()
    before?.([...runtime.workers.values()][0]!, misbehave(runtime))
    const shoji = await startShoji({ runtimes: [{ id: 'rt', url: runtime.url }], overrides: OVERRIDES })
    await untilKnown(shoji, workers)
    return new Stage(runtime, shoji, await viewerOf(shoji))
  }

  get workers(): readonly EmbeddedWorker[] {
    return [...this.runtime.workers.values()]
  }

  get worker(): EmbeddedWorker {
    return this.workers[0]!
  }

  /** Reasons of the resets that the viewer was told, of all workers. */
  get resets(): string[] {
    return this.stream.frames.flatMap(f => (f.event === 'reset' ? [f.data.reason] : []))
  }

  resetsOf({ id }: EmbeddedWorker): string[] {
    return this.stream.frames.flatMap(f =>
      f.event === 'reset' && f.data.worker === id ? [f.data.reason] : [],
    )
  }

  /** Something is said and arrives: whatever happened before is settled. */
  async goesOn(worker = this.worker, text = 'and on'): Promise<void> {
    turn(worker, text)
    await this.stream.until(
      s => this.is('idle', worker)(s) && saw(worker, text)(s),
      `the worker says ${text}`,
    )
  }

  is(wanted: string, worker = this.worker) {
    return (stream: TestStream): boolean => stateOf(stream.state, worker).status === wanted
  }

  async untilReset(reason: string): Promise<void> {
    await this.stream.until(() => this.resets.length > 0, `a reset because of ${reason}`)
    await this.stream.untilLive()
    expect(this.resets).toEqual([reason])
  }

  /** The worker's connection is cut, and something happens before it is connected again. */
  async whileCut(worker: EmbeddedWorker, act: () => void): Promise<void> {
    this.wrong.refuseUpgrades(unavailable, Number.POSITIVE_INFINITY)
    this.wrong.cut(worker.id)
    await eventually(() => worker.observers.size === 0, 'the connection is cut')
    act()
    this.wrong.behave()
    await eventually(() => worker.observers.size > 0, 'the worker is connected again')
  }

  /** What a viewer who comes now is shown of it. */
  async fresh(worker = this.worker): Promise<string[]> {
    using late = await viewerOf(this.shoji)
    return conversationOf(late.state, worker)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stream.cut()
    await this.shoji[Symbol.asyncDispose]()
    await this.runtime.close()
  }
}

const viewerOf = async (shoji: RunningShoji): Promise<TestStream> => {
  const url = `${shoji.url}/api/runtimes/rt/events`
  return (await TestStream.open(url, { token: TOKENS.admin, timeoutMs: 20_000 })).untilLive()
}

const emit = (worker: EmbeddedWorker, events: readonly RuntimeEvent[]): void => {
  for (const event of events) worker.emit(event)
}
const ask = (text: string): RuntimeEvent => ({
  event: 'user_message',
  data: { segments: [{ kind: 'text', content: text }] },
})
const opening = [
  status('running'),
  { event: 'turn_start', data: { turn: 0 } },
  { event: 'llm_call_start', data: { llm_call: 0 } },
]
const piece = (text: string): RuntimeEvent => ({ event: 'text_delta', data: { text } })
const done = (text: string): RuntimeEvent => ({ event: 'text_done', data: { text } })
const ending = [
  { event: 'llm_call_end', data: { llm_call: 0 } },
  { event: 'turn_end', data: { turn: 0, result: 'finished' } },
  { event: 'run_end', data: { result: 'finished' } },
  status('idle'),
]
/** The user asks, and a text is the answer. */
const turn = (worker: EmbeddedWorker, text: string): void =>
  emit(worker, [
    ask(`${text}?`),
    ...opening,
    piece(text.slice(0, 2)),
    piece(text.slice(2)),
    done(text),
    ...ending,
  ])
const upTo = (count: number, prefix: string): string[] =>
  Array.from({ length: count }, (_, n) => `${prefix} ${n}`)

it('case 7: cursors of one worker are full of holes, since all workers share a counter, and that is nothing', async () => {
  await using stage = await Stage.set({ workers: 3 })
  for (let n = 0; n < 30; n++) for (const worker of stage.workers) turn(worker, `text ${n}`)
  for (const worker of stage.workers) await stage.stream.until(saw(worker, 'text 29'))
  stage.wrong.cut()
  for (const worker of stage.workers) await stage.goesOn(worker)
  expect(stage.resets).toEqual([])
  const said = [...upTo(30, 'text').flatMap(text => [`${text}?`, text]), 'and on?', 'and on']
  for (const worker of stage.workers) expect(conversationOf(stage.stream.state, worker)).toEqual(said)
})

for (const [name, reason] of [
  ['case 26: a restart that makes an old cursor valid again', 'upstream_restarted'],
  // All that comes of the worker is numbered above what was known of it, as after a gap.
  ['trap 1: a counter that begins again, with an old cursor now of another worker,', 'upstream_gap'],
] as const)
  it(`${name} is announced, and nothing of the old life stays on the screen`, async () => {
    await using stage = await Stage.set({ workers: 2 })
    await stage.goesOn(stage.worker, 'the first life')
    const { id, lastPosition: known } = stage.worker
    await stage.runtime.restart({
      whileDown() {
        const again = stage.runtime.addWorker({ workerId: id })
        const other = stage.runtime.addWorker()
        const busy = name.startsWith('trap') ? other : again
        for (let n = 0; busy.lastPosition <= known + 8; n++) turn(busy, `second life ${n}`)
        turn(again, 'second life')
      },
    })
    await stage.stream.until(() => stage.resetsOf(stage.worker).length > 0, 'a reset')
    await stage.goesOn()
    expect(stage.resetsOf(stage.worker)).toEqual([reason])
    const shown = conversationOf(stage.stream.state, stage.worker)
    expect(shown.filter(text => text.includes('first'))).toEqual([])
    expect(shown).toEqual(await stage.fresh())
  })

it('trap 1: numbers of a deleted worker that are given twice after a restart with the store are no proof', async () => {
  await using stage = await Stage.set({ store: 'memory-store', workers: 2 })
  const [kept, torn] = stage.workers
  await stage.goesOn(kept, 'it stays')
  await stage.goesOn(torn, 'it goes')
  torn!.torn = true
  await stage.runtime.restart()
  turn(kept!, 'again')
  await stage.stream.until(saw(kept!, 'again'))
  expect(stage.resets).toEqual([])
  expect(conversationOf(stage.stream.state, kept!)).toEqual(['it stays?', 'it stays', 'again?', 'again'])
})

for (const name of [
  'case 26: a busy worker that evicts a quiet one’s run, which nobody heard,',
  'trap 2: the backlog that all workers share, overrun by one of them,',
])
  it(`${name} is an announced gap`, async () => {
    await using stage = await Stage.set({ workers: 2 })
    const [quiet, busy] = stage.workers
    await stage.goesOn(quiet, 'heard')
    await stage.whileCut(quiet!, () => {
      turn(quiet!, 'missed')
      for (let n = 0; n < RETAINED / 8; n++) turn(busy!, `busy ${n}`)
    })
    await stage.untilReset('upstream_gap')
    await stage.goesOn(quiet)
    expect(conversationOf(stage.stream.state, quiet!)).toEqual([
      ...['heard?', 'heard', 'missed?', 'missed', 'and on?', 'and on'],
    ])
  })

for (const name of [
  'case 26: a worker with no retained events that accepts any cursor, with a run missing,',
  'trap 3: events missing with no diagnostic at all,',
])
  it(`${name} is announced`, async () => {
    await using stage = await Stage.set()
    await stage.goesOn(stage.worker, 'heard')
    await stage.whileCut(stage.worker, () => {
      turn(stage.worker, 'missed')
      stage.wrong.evict(stage.worker.id)
    })
    await stage.untilReset('upstream_gap')
    // The cursor was accepted, and only then a connection without one was made.
    const asked = stage.runtime.traffic.upgrades.filter(({ status: code }) => code === 101)
    expect(asked.slice(-2).map(({ cursor }) => cursor !== undefined)).toEqual([true, false])
    expect(conversationOf(stage.stream.state, stage.worker)).toEqual(['heard?', 'heard', 'missed?', 'missed'])
  })

it.each([3, 2, 1, 0])(
  'case 84: a quiet worker of which %i events are retained has no false reset',
  async retained => {
    await using stage = await Stage.set({ workers: 2 })
    const [quiet, busy] = stage.workers
    await stage.goesOn(quiet, 'heard')
    await stage.whileCut(quiet!, () => {
      for (let n = 0; n < RETAINED - retained; n++) busy!.emit(piece(`${n} `))
      expect(stage.runtime.log.firstOf(quiet!.id) ?? null).toBe(
        retained === 0 ? null : quiet!.lastPosition - retained + 1,
      )
    })
    await stage.goesOn(quiet)
    expect(stage.resets).toEqual([])
    expect(conversationOf(stage.stream.state, quiet!)).toEqual(['heard?', 'heard', 'and on?', 'and on'])
  },
)

it('case 84: the same first three events in two lives of a Runtime are not taken for proof', async () => {
  const first = [ask('hello'), status('running'), { event: 'turn_start', data: { turn: 0 } }]
  await using stage = await Stage.set()
  emit(stage.worker, first)
  await stage.stream.until(stage.is('running'))
  const old = stage.worker.lastPosition
  const id = stage.worker.id
  await stage.runtime.restart({
    whileDown() {
      emit(stage.runtime.addWorker({ workerId: id }), first)
      expect(stage.worker.lastPosition).toBe(old)
    },
  })
  await stage.untilReset('upstream_unverifiable')
  emit(stage.worker, [piece('a text'), done('a text'), ...ending])
  await stage.stream.until(stage.is('idle'))
  expect(conversationOf(stage.stream.state, stage.worker)).toEqual(['hello', 'a text'])
})

it('case 84: a position that is a snapshot alone is proven by equal cursor and bytes', async () => {
  await using stage = await Stage.set({ before: worker => turn(worker, 'long ago') })
  await stage.whileCut(stage.worker, () => {})
  await stage.goesOn()
  expect(stage.resets).toEqual([])
  expect(conversationOf(stage.stream.state, stage.worker)).toEqual([
    'long ago?',
    'long ago',
    'and on?',
    'and on',
  ])
})

it('case 84: a position that is a snapshot alone is not proven by one that says something else', async () => {
  await using stage = await Stage.set({ before: worker => turn(worker, 'long ago') })
  await stage.whileCut(stage.worker, () =>
    stage.worker.appendLog({ kind: 'system_item', item: notification('since then') }),
  )
  await stage.untilReset('upstream_unverifiable')
})

for (const [name, words] of [
  ['case 85: a Runtime that is killed in mid-turn and continues its sequence', []],
  ['trap 7: a worker killed in mid-run, of which the last words were not heard,', ['its last words']],
] as const)
  it(`${name} leaves no viewer with a run that never ends`, async () => {
    await using stage = await Stage.set({ store: 'memory-store' })
    await stage.goesOn(stage.worker, 'before')
    emit(stage.worker, [ask('and now?'), ...opening, piece('half a sentence, ')])
    await stage.stream.until(saw(stage.worker, 'half a sentence, '))
    expect(stage.is('running')(stage.stream)).toBe(true)
    stage.wrong.cut()
    emit(stage.worker, words.map(piece))
    const next = stage.runtime.log.next
    await stage.runtime.restart()
    expect(stage.runtime.log.next).toBe(next)
    await stage.untilReset('upstream_state_mismatch')
    expect(stateOf(stage.stream.state, stage.worker)).toMatchObject({
      status: 'idle',
      open: { blocks: [], calls: [] },
    })
    await stage.goesOn()
    expect(conversationOf(stage.stream.state, stage.worker)).toEqual([
      ...['before?', 'before', 'and now?', 'and on?', 'and on'],
    ])
  })

it('case 85: a run that begins at once after such a restart explains it, and no reset is needed', async () => {
  await using stage = await Stage.set({ store: 'memory-store' })
  emit(stage.worker, [ask('and now?'), ...opening, piece('half a sentence, ')])
  await stage.stream.until(saw(stage.worker, 'half a sentence, '))
  await stage.runtime.restart({ whileDown: () => turn(stage.worker, 'anew') })
  await stage.stream.until(saw(stage.worker, 'anew'))
  await stage.goesOn()
  expect(stage.resets).toEqual([])
  expect(stage.is('idle')(stage.stream)).toBe(true)
})

it.each(['events-ws', 'protocol-ws'] as const)(
  'case 86: a user message inside the snapshot and after it is one item at the latest at the next idle, in %s',
  async generation => {
    await using stage = await Stage.set({
      generation,
      before(worker, wrong) {
        turn(worker, 'long ago')
        emit(worker, [ask('a question'), ...opening])
        wrong.overlap(worker.id, 4)
      },
    })
    stage.wrong.overlap(stage.worker.id, 0)
    await stage.stream.until(stage.is('running'))
    emit(stage.worker, [piece('an answer'), done('an answer'), ...ending])
    await stage.stream.until(
      s =>
        stage.is('idle')(s) &&
        conversationOf(s.state, stage.worker).filter(text => text === 'a question').length === 1,
      'the question once',
    )
    await stage.goesOn()
    const shown = ['long ago?', 'long ago', 'a question', 'an answer', 'and on?', 'and on']
    expect(conversationOf(stage.stream.state, stage.worker)).toEqual(shown)
    expect(await stage.fresh()).toEqual(shown)
  },
)

it('trap 4: a refused cursor is no reset where nothing was lost', async () => {
  await using stage = await Stage.set({ workers: 2 })
  const [quiet, busy] = stage.workers
  for (const text of ['one', 'two', 'three']) await stage.goesOn(quiet, text)
  await stage.whileCut(quiet!, () => {
    for (let n = 0; n < RETAINED - 5; n++) busy!.emit(piece(`${n} `))
  })
  await stage.goesOn(quiet)
  const asked = stage.runtime.traffic.upgrades.map(({ cursor }) => cursor)
  expect(asked).toContain('wo_0000000000000000')
  expect(stage.resets).toEqual([])
})

it('trap 5: events that are delivered twice are shown once', async () => {
  await using stage = await Stage.set()
  stage.wrong.double(stage.worker.id, 8)
  await stage.goesOn(stage.worker, 'said once')
  await stage.goesOn()
  expect(conversationOf(stage.stream.state, stage.worker)).toEqual([
    'said once?',
    'said once',
    'and on?',
    'and on',
  ])
  expect(stage.resets).toEqual([])
})

it('trap 6: a block that vanished before it was numbered is there at the next idle, by an announced reset', async () => {
  await using stage = await Stage.set()
  emit(stage.worker, [ask('two texts'), ...opening, piece('first. '), done('first. ')])
  stage.wrong.lose(stage.worker.id, 2)
  emit(stage.worker, [piece('second.'), done('second.'), ...ending])
  await stage.untilReset('upstream_resynced')
  expect(conversationOf(stage.stream.state, stage.worker)).toEqual(['two texts', 'first. second.'])
})

it('trap 6: what vanished at the end of a run is added at the next idle, and there is no reset', async () => {
  await using stage = await Stage.set()
  await stage.goesOn(stage.worker, 'before')
  emit(stage.worker, [ask('again'), ...opening])
  stage.wrong.lose(stage.worker.id, 2)
  emit(stage.worker, [piece('unheard'), done('unheard'), ...ending])
  await stage.stream.until(saw(stage.worker, 'unheard'))
  await stage.goesOn()
  expect(conversationOf(stage.stream.state, stage.worker)).toEqual([
    ...['before?', 'before', 'again', 'unheard', 'and on?', 'and on'],
  ])
  expect(stage.resets).toEqual([])
})

it('trap 8: stale blocks in flight of earlier turns, finished or not, are not shown again', async () => {
  const failure = { event: 'error', data: { code: 'internal', message: 'cut' } }
  await using stage = await Stage.set({
    before(worker) {
      // A message of two texts leaves both in flight, and one that failed what it had of it (R22). The log has
      // the failure, and that the turn was interrupted.
      emit(worker, [ask('one'), ...opening, piece('first. '), done('first. ')])
      emit(worker, [piece('second.'), done('second.'), ...ending])
      emit(worker, [ask('two'), ...opening, piece('half a '), failure, status('idle')])
      emit(worker, [ask('three'), ...opening, piece('now ')])
      expect(worker.snapshotData()).toMatch(/"in_flight".*first\. .*second\..*half a .*now /)
    },
  })
  await stage.stream.until(saw(stage.worker, 'now '))
  emit(stage.worker, [piece('this'), done('now this'), ...ending])
  await stage.stream.until(stage.is('idle'))
  const shown = ['one', 'first. second.', 'two', 'error', 'system', 'three', 'now this']
  expect(conversationOf(stage.stream.state, stage.worker)).toEqual(shown)
  expect(await stage.fresh()).toEqual(shown)
  expect(stage.resets).toEqual([])
})

it('trap 9: the stand-in of a stopped worker does not empty its list', async () => {
  await using stage = await Stage.set()
  await stage.goesOn(stage.worker, 'before')
  emit(stage.worker, [ask('and now?'), ...opening, piece('half a sentence')])
  await stage.stream.until(saw(stage.worker, 'half a sentence'))
  stage.worker.stop()
  await stage.stream.until(stage.is('stopped'))
  stage.wrong.cut()
  await eventually(
    () => stage.stream.frames.some(f => f.event === 'status' && f.data.upstream === 'gone'),
    'the worker is told as gone',
  )
  expect(await stage.fresh()).toEqual(
    expect.arrayContaining(['before?', 'before', 'and now?', 'half a sentence']),
  )
  expect(stage.resets).toEqual([])
})

it('trap 10: a compaction is told, and what it left of the list is shown after it', async () => {
  await using stage = await Stage.set()
  for (const text of upTo(6, 'text')) await stage.goesOn(stage.worker, text)
  stage.worker.compact()
  await stage.untilReset('compacted')
  await stage.goesOn()
  const shown = conversationOf(stage.stream.state, stage.worker)
  expect(shown.slice(-2)).toEqual(['and on?', 'and on'])
  expect(shown.filter(text => text === 'text 0')).toEqual([])
  expect(await stage.fresh()).toEqual(shown)
})

it('trap 10: what only the log tells is shown at the next idle, and there is no reset', async () => {
  await using stage = await Stage.set()
  emit(stage.worker, [ask('one'), ...opening, piece('an answer'), done('an answer')])
  stage.worker.appendLog({ kind: 'system_item', item: notification('the build is green') })
  emit(stage.worker, ending)
  const items = () => stateOf(stage.stream.state, stage.worker).items
  await stage.stream.until(() => items().some(item => item.kind === 'system'), 'the notification')
  expect(JSON.stringify(items().find(item => item.kind === 'system'))).toContain('the build is green')
  await stage.goesOn()
  expect(items().filter(item => item.kind === 'system')).toHaveLength(1)
  expect(items().map(textOf)).toEqual(expect.arrayContaining(['one', 'an answer', 'and on?', 'and on']))
  expect(stage.resets).toEqual([])
})
