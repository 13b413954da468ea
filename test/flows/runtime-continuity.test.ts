/** What a source makes of a Runtime that goes on, begins again, forgets, or says something else than it did. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { json } from '../../src/embedded-runtime/answer.ts'
import type { Generation } from '../../src/embedded-runtime/events.ts'
import { type Misbehaviour, misbehave, unavailable } from '../../src/embedded-runtime/misbehave.ts'
import { type EmbeddedRuntime, startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'
import { RUNTIME_LIMITS, type RuntimeLimits } from '../../src/sources/runtime/limits.ts'
import { createRuntimeSource, type RuntimeSourceDeps } from '../../src/sources/runtime/runtime-source.ts'
import type { Source } from '../../src/sources/source.ts'
import { CollectingEvents, CollectingSink } from '../_support/collecting-sink.ts'
import { startCuttingProxy } from '../_support/cutting-proxy.ts'
import { VirtualClock } from '../_support/virtual-clock.ts'

const QUICK: Partial<RuntimeLimits> = {
  pollMs: 15,
  lingerMs: 60,
  mismatchMs: 20,
  resyncEveryMs: 10,
  retry: { baseMs: 5, maxMs: 20 },
}
const ZERO = 'wo_0000000000000000'

let runtime: EmbeddedRuntime
let wrong: Misbehaviour
let sink: CollectingSink
let events: CollectingEvents
let source: Source
let control: AbortController
let end: () => Promise<void>

const startRuntime = async (generation: Generation, store: 'none' | 'memory-store' = 'memory-store') => {
  runtime = await startEmbeddedRuntime({ generation, store, backlogEvents: 64 })
  wrong = misbehave(runtime)
}

const startSource = (
  limits: Partial<RuntimeLimits> = {},
  deps: Partial<RuntimeSourceDeps> = {},
  { url }: { readonly url: string } = runtime,
) => {
  events = new CollectingEvents()
  source = createRuntimeSource({ id: 'rt', url, dialect: 'auto' }, sink, {
    events: events.events,
    limits: { ...QUICK, ...limits },
    ...deps,
  })
  control = new AbortController()
  const running = source.run(control.signal)
  end = async () => {
    control.abort()
    await running
  }
}

const say = (worker: EmbeddedWorker, text: string) => worker.emit({ event: 'text_delta', data: { text } })
const statusOf = (worker: EmbeddedWorker, status: string) =>
  worker.emit({ event: 'status', data: { status } })

/** The cursors that were asked from, `null` where none was. */
const askedFrom = () =>
  runtime.traffic.upgrades.filter(({ status }) => status === 101).map(({ cursor }) => cursor ?? null)

const cursorOf = (text: string) =>
  sink.of('accept').find(({ envelope }) => envelope.payload.includes(`"${text}"`))?.envelope.cursor

/** Says texts and waits until they are taken. */
const told = async (worker: EmbeddedWorker, ...texts: string[]) => {
  for (const text of texts) say(worker, text)
  await sink.until(s => s.texts(worker.id).includes(texts.at(-1) ?? ''))
}

const ofLength = (count: number, prefix: string) => Array.from({ length: count }, (_, n) => `${prefix}${n}`)

/** Cuts the connection and does something before the worker can be connected again. */
const whileCut = async (worker: EmbeddedWorker, act: () => void) => {
  wrong.refuseUpgrades(unavailable, Number.POSITIVE_INFINITY)
  wrong.cut(worker.id)
  await sink.reaches(worker.id, 'reconnecting')
  act()
  wrong.behave()
}

const observed = async (limits: Partial<RuntimeLimits> = {}, deps: Partial<RuntimeSourceDeps> = {}) => {
  const worker = runtime.addWorker()
  startSource(limits, deps)
  await sink.next('begin', worker.id)
  return worker
}

beforeEach(() => {
  sink = new CollectingSink()
  sink.provable = true
  end = async () => undefined
})

afterEach(async () => {
  await end()
  await runtime.close()
})

describe('a reconnect', () => {
  beforeEach(() => startRuntime('events-ws'))

  test('asks from the oldest stored event and goes on with the list, nothing doubled or lost', async () => {
    const worker = await observed()
    const before = ofLength(20, 'text before ')
    await told(worker, ...before)
    await whileCut(worker, () => say(worker, 'text meanwhile'))
    await told(worker, 'text after')
    expect(sink.texts(worker.id)).toEqual([...before, 'text meanwhile', 'text after'])
    expect(askedFrom()).toEqual([null, cursorOf('text before 4')])
    expect(events.verdicts(worker.id)).toEqual(['proven'])
    expect(sink.of('begin', worker.id)).toHaveLength(1)
    expect(sink.of('closed', worker.id)).toEqual([{ kind: 'closed', worker: worker.id, resumable: true }])
    expect(source.upstream(worker.id)).toMatchObject({ upstream: 'live' })
  })

  test('goes on from a snapshot that no event followed, where it comes again to the byte', async () => {
    const worker = await observed()
    wrong.cut()
    await events.more('connected', 1)
    expect(askedFrom()).toEqual([null, ZERO])
    expect(events.verdicts(worker.id)).toEqual(['proven'])
    expect(sink.of('begin', worker.id)).toHaveLength(1)
  })

  test('goes on after a restart of a Runtime that keeps its store', async () => {
    const worker = await observed()
    await told(worker, 'a text of the model', 'another text')
    await runtime.restart()
    await told(worker, 'a text of the next life')
    expect(events.verdicts(worker.id)).toEqual(['proven'])
    expect(sink.texts(worker.id)).toEqual(['a text of the model', 'another text', 'a text of the next life'])
    expect(sink.of('begin', worker.id)).toHaveLength(1)
  })

  test('asks for all that is retained where its cursor is refused', async () => {
    const worker = await observed()
    const before = ofLength(20, 'text before ')
    await told(worker, ...before)
    await whileCut(worker, () => wrong.evict(worker.id, 5))
    await told(worker, 'text after')
    expect(askedFrom()).toEqual([null, cursorOf('text before 4'), ZERO])
    expect(events.verdicts(worker.id)).toEqual(['retry_from_zero', 'proven'])
    expect(sink.texts(worker.id)).toEqual([...before, 'text after'])
    expect(sink.of('begin', worker.id)).toHaveLength(1)
    expect(events.ends(worker.id)).toContain('ask_from_zero')
  })

  test.each([3, 2, 1, 0])('of a quiet worker is no reset with %i of its events retained', async retained => {
    const worker = await observed()
    sink.comparisons.set(worker.id, { empty: false })
    await told(worker, ...ofLength(9, 't'))
    await whileCut(worker, () => wrong.evict(worker.id, retained))
    await events.until(() => events.verdicts(worker.id).includes('proven'))
    await told(worker, 'and on')
    expect(sink.of('begin', worker.id)).toHaveLength(1)
    expect(sink.texts(worker.id)).toEqual([...ofLength(9, 't'), 'and on'])
  })

  test('tries the proof again after an attempt that fails', async () => {
    const worker = await observed()
    await told(worker, 'a text of the model')
    const { cursor } = await sink.next('accept', worker.id).then(({ envelope }) => envelope)
    statusOf(worker, 'idle')
    await sink.until(s => s.of('accept', worker.id).length === 2)
    wrong.refuseUpgrades(unavailable, 3)
    wrong.cut()
    await events.until(() => events.verdicts(worker.id).length === 1)
    const tries = runtime.traffic.upgrades.slice(1)
    expect(tries.map(({ status }) => status)).toEqual([500, 500, 500, 101])
    expect(new Set(tries.map(upgrade => upgrade.cursor))).toEqual(new Set([cursor]))
  })

  test('tries the proof again after one whose fence was not answered', async () => {
    const worker = await observed({ fenceMs: 40 })
    await told(worker, 'a text of the model', 'another text')
    wrong.cut()
    await runtime.traffic.until(() => askedFrom().length === 2)
    wrong.holdPongs(true, worker.id)
    await events.until(() => events.verdicts(worker.id).length === 1)
    expect(events.ends(worker.id)).toEqual(['closed', 'no_pong'])
    expect(askedFrom()).toEqual([null, cursorOf('a text of the model'), cursorOf('a text of the model')])
    expect(sink.of('begin', worker.id)).toHaveLength(1)
  })

  test('after an overrun goes on where all of it is retained, and is a gap where that is not proven', async () => {
    const worker = await observed()
    await told(worker, 'a text of the model', 'another text')
    wrong.overrun(worker.id)
    await events.until(() => events.verdicts(worker.id).includes('proven'))
    expect(sink.of('begin', worker.id)).toHaveLength(1)
    sink.comparisons.set(worker.id, { comparison: 'differs', empty: false })
    wrong.evict(worker.id, 0)
    wrong.overrun(worker.id)
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('upstream_gap')
    expect(events.verdicts(worker.id).at(-1)).toBe('upstream_unverifiable')
  })

  test('that was proven disproves what was feared: a later reset has its own reason', async () => {
    const worker = await observed()
    await told(worker, 'a text of the model', 'another text')
    wrong.overrun(worker.id)
    await events.until(() => events.verdicts(worker.id).includes('proven'))
    sink.comparisons.set(worker.id, { comparison: 'differs', empty: false })
    wrong.evict(worker.id, 0)
    wrong.cut(worker.id)
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('upstream_unverifiable')
  })

  test('does not go on where a stopped list stands and the worker runs: nothing would tell that it lives', async () => {
    const worker = await observed()
    await told(worker, 'a text of the model', 'another text')
    const proof = { events: [], snapshot: { cursor: ZERO, mac: '' }, saysNothing: false }
    sink.proofs.set(worker.id, { ...proof, status: 'stopped' })
    wrong.cut()
    await sink.next('begin', worker.id, 2)
    expect(askedFrom()).toEqual([null, null])
  })

  test('of a worker that does not run goes on as well, and says nothing', async () => {
    const worker = await observed()
    await told(worker, 'a text of the model', 'another text')
    await end()
    worker.life = 'cancelled'
    startSource()
    source.wanted(worker.id)
    await events.until(() => events.ends(worker.id).includes('looked'))
    expect(events.verdicts(worker.id)).toEqual(['proven'])
    expect(sink.of('begin', worker.id)).toHaveLength(1)
  })
})

describe('a list begins anew, by a connection without a cursor,', () => {
  beforeEach(() => startRuntime('events-ws', 'none'))

  const begunAnew = async (worker: EmbeddedWorker, reason: string, asked: readonly (string | null)[]) => {
    expect((await sink.next('begin', worker.id, 2)).reason).toBe(reason)
    expect(events.verdicts(worker.id).at(-1)).toBe(reason)
    expect(askedFrom()).toEqual([null, ...asked, null])
    await sink.reaches(worker.id, 'live')
    const now = runtime.worker(worker.id)
    await told(now, 'of the new list')
    const last = sink.all.findLastIndex(({ kind }) => kind === 'begin')
    expect(sink.all.slice(last).flatMap(it => (it.kind === 'accept' ? [it] : []))).toHaveLength(1)
  }

  test('where a Runtime without a store gives numbers twice', async () => {
    const worker = await observed()
    await told(worker, ...ofLength(6, 'text of the first life '))
    const first = cursorOf('text of the first life 0') ?? ''
    const [again] = await wrong.alias()
    for (const text of ofLength(9, 'text of the second life ')) if (again !== undefined) say(again, text)
    await begunAnew(worker, 'upstream_restarted', [first])
  })

  test('where a Runtime without a store knows nothing of what was said', async () => {
    const worker = await observed()
    await told(worker, ...ofLength(6, 'text of the first life '))
    const first = cursorOf('text of the first life 0') ?? ''
    await wrong.alias()
    await begunAnew(worker, 'upstream_restarted', [first, ZERO])
  })

  test('where events came and went that nobody heard', async () => {
    const worker = await observed()
    await told(worker, ...ofLength(6, 'text before '))
    const first = cursorOf('text before 0') ?? ''
    await whileCut(worker, () => {
      for (const text of ofLength(70, 'text meanwhile ')) say(worker, text)
    })
    await begunAnew(worker, 'upstream_gap', [first, ZERO])
  })

  test('where too little comes again, and the snapshot says something else', async () => {
    const worker = await observed()
    await told(worker, 'a', 'b')
    sink.comparisons.set(worker.id, { comparison: 'differs' })
    const first = cursorOf('a') ?? ''
    wrong.cut()
    await begunAnew(worker, 'upstream_unverifiable', [first])
  })

  test('where another profile is listed, and none is asked from meanwhile', async () => {
    const worker = await observed()
    await told(worker, ...ofLength(6, 'text before '))
    runtime.intercept = (kind, path) =>
      kind === 'request' && path === '/v1/workers'
        ? json(`{"workers":[{"worker_id":${worker.idJson},"status":"running","profile":"guest"}]}`)
        : undefined
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('worker_changed')
    expect(askedFrom()).toEqual([null, null])
    expect(sink.of('closed', worker.id)).toMatchObject([{ resumable: false }])
  })

  test('where another profile is listed while it is away', async () => {
    const worker = await observed()
    await told(worker, ...ofLength(6, 'text before '))
    wrong.refuseUpgrades(unavailable, Number.POSITIVE_INFINITY)
    wrong.cut()
    await sink.reaches(worker.id, 'reconnecting')
    runtime.intercept = (kind, path) => {
      if (kind === 'upgrade') return sink.of('profile', worker.id).length === 0 ? unavailable : undefined
      return path === '/v1/workers'
        ? json(`{"workers":[{"worker_id":${worker.idJson},"status":"running","profile":"guest"}]}`)
        : undefined
    }
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('worker_changed')
    // One that was on its way when the news came is ended before its verdict.
    expect(events.verdicts(worker.id)).toEqual([])
    expect(askedFrom().at(-1)).toBeNull()
  })

  test('where a frame is lost that is larger than can be read, though all else would prove it', async () => {
    const worker = runtime.addWorker({ log: 'off' })
    startSource({ hardFrameBytes: 50_000 })
    await sink.next('begin', worker.id)
    await told(worker, ...ofLength(6, 'text before '))
    wrong.oversizeEvent(worker.id, 100_000)
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('upstream_gap')
    expect(askedFrom()).toEqual([null, null])
    expect(sink.of('closed', worker.id)).toMatchObject([{ resumable: false }])
    expect(events.verdicts(worker.id)).toEqual([])
  })

  test('where such a frame lies in the backlog of a resume', async () => {
    const worker = runtime.addWorker({ log: 'off' })
    startSource({ hardFrameBytes: 50_000 })
    await sink.next('begin', worker.id)
    await told(worker, ...ofLength(6, 'text before '))
    await whileCut(worker, () => wrong.oversizeEvent(worker.id, 100_000))
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('upstream_gap')
    expect(askedFrom()).toEqual([null, cursorOf('text before 0'), null])
  })

  test('where more comes again than is held, since the next try would not differ', async () => {
    const worker = await observed({ heldFrames: 8 })
    await told(worker, ...ofLength(6, 'text before '))
    await whileCut(worker, () => {
      for (const text of ofLength(9, 'text meanwhile ')) say(worker, text)
    })
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('upstream_unverifiable')
    expect(askedFrom()).toEqual([null, cursorOf('text before 0'), null])
  })
})

test('in protocol-ws nothing is proven, whatever is stored', async () => {
  await startRuntime('protocol-ws')
  const worker = await observed()
  await told(worker, ...ofLength(6, 'text before '))
  wrong.cut()
  const { reason, beginning } = await sink.next('begin', worker.id, 2)
  expect(reason).toBe('upstream_unverifiable')
  expect(beginning).toMatchObject({ dialect: 'protocol-ws' })
  expect(runtime.traffic.upgrades.filter(({ cursor }) => cursor !== undefined)).toEqual([])
  expect(sink.of('closed', worker.id)).toMatchObject([{ resumable: false }])
  expect(events.verdicts(worker.id)).toEqual([])
  // Nor by a process that knows the list from one before it.
  await end()
  startSource()
  await sink.next('begin', worker.id, 3)
  expect(askedFrom()).toEqual([null, null, null])
})

test('a beginning tells its dialect, and whether anything came between snapshot and fence', async () => {
  await startRuntime('events-ws')
  sink.provable = false
  const worker = await observed()
  expect((await sink.next('begin', worker.id)).beginning).toEqual({
    reason: 'upstream_unverifiable',
    dialect: 'events-ws',
    followed: false,
  })
  await told(worker, 'one', 'two')
  wrong.overlap(worker.id, 1)
  wrong.cut()
  expect((await sink.next('begin', worker.id, 2)).beginning).toMatchObject({ followed: true })
})

describe('the snapshot of a proven resume, in virtual time,', () => {
  let clock: VirtualClock
  let worker: EmbeddedWorker

  beforeEach(async () => {
    await startRuntime('events-ws')
    clock = new VirtualClock()
    worker = await observed(RUNTIME_LIMITS, { clock, random: () => 1 })
  })

  /** Lets everything that is under way come. */
  const settle = async () => {
    for (let n = 0; n < 2; n += 1) {
      const polled = events.more('discovered', 1)
      await clock.advance(RUNTIME_LIMITS.pollMs)
      await polled
    }
  }
  const back = async () => {
    await clock.waiting(ms => ms === 250)
    await clock.advance(250)
    await events.until(() => events.verdicts(worker.id).at(-1) === 'proven')
  }
  const isReset = () => sink.of('begin', worker.id).length > 1
  const run = async () => {
    statusOf(worker, 'running')
    await told(worker, 'a text of the run')
  }

  test('that is idle while we run waits two seconds, and then the run has died with its Runtime', async () => {
    await run()
    await runtime.restart()
    await back()
    await clock.waiting(ms => ms === 2_000)
    await clock.advance(1_999)
    expect(isReset()).toBe(false)
    await clock.advance(1)
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('upstream_state_mismatch')
    expect(askedFrom()).toEqual([null, sink.of('accept', worker.id)[0]?.envelope.cursor, null])
    expect(sink.of('closed', worker.id)).toMatchObject([{ resumable: true }, { resumable: false }])
    expect(events.ends(worker.id)).toEqual(['closed', 'state_mismatch'])
  })

  test('does so too where the last words of the run came with it', async () => {
    await run()
    wrong.cut()
    say(worker, 'its last words')
    await runtime.restart()
    await back()
    await sink.until(s => s.texts(worker.id).includes('its last words'))
    await clock.waiting(ms => ms === 2_000)
    await clock.advance(2_000)
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('upstream_state_mismatch')
  })

  test('is explained by any event within two seconds', async () => {
    await run()
    sink.comparisons.set(worker.id, { status: 'idle' })
    wrong.cut()
    await back()
    await clock.waiting(ms => ms === 2_000)
    await clock.advance(1_999)
    await told(worker, 'it goes on')
    await settle()
    await told(worker, 'and on')
    expect(isReset()).toBe(false)
    expect(events.ends(worker.id)).toEqual(['closed'])
  })

  test('is explained by an event that lies unread in the socket when the time has passed', async () => {
    await run()
    sink.comparisons.set(worker.id, { status: 'idle' })
    wrong.cut()
    await back()
    await clock.waiting(ms => ms === 2_000)
    say(worker, 'under way')
    await clock.oversleep(2_000)
    await sink.until(s => s.texts(worker.id).includes('under way'))
    await told(worker, 'and on')
    expect(isReset()).toBe(false)
    expect(events.ends(worker.id)).toEqual(['closed'])
  })

  test('that runs as we do lets a later idle decide', async () => {
    await run()
    sink.comparisons.set(worker.id, { status: 'running', comparison: 'differs' })
    wrong.cut()
    await back()
    await sink.next('resyncDue', worker.id)
    expect(clock.waits).not.toContain(2_000)
  })

  test('that says more at rest is healed later, and one that says the same is nothing', async () => {
    await told(worker, 'a text of the model', 'another text')
    sink.comparisons.set(worker.id, { comparison: 'more' })
    wrong.cut()
    await back()
    await sink.next('resyncDue', worker.id)
    sink.comparisons.set(worker.id, { comparison: 'same' })
    const again = events.more('judged', 1)
    wrong.cut()
    await clock.waiting(ms => ms === 500)
    await clock.advance(500)
    await again
    await told(worker, 'and on')
    expect(sink.of('resyncDue', worker.id)).toHaveLength(1)
    expect(clock.waits).not.toContain(2_000)
    expect(isReset()).toBe(false)
  })
})

describe.each(['events-ws', 'protocol-ws'] as const)('a resync on %s', generation => {
  beforeEach(() => startRuntime(generation))

  const fetched = () => askedFrom().length - 1
  const due = { due: true, idle: true }

  test.each(['same', 'adopted'] as const)('whose snapshot says %s costs nothing', async outcome => {
    const worker = await observed()
    await told(worker, 'said')
    sink.outcomes.set(worker.id, { outcome })
    sink.needs(worker.id, due)
    const { snapshot } = await sink.next('resync', worker.id)
    sink.needs(worker.id, { due: false })
    expect(JSON.parse(snapshot.payload).event).toBe('snapshot')
    await runtime.traffic.until(() => runtime.connectionsOpen === 1)
    await told(worker, 'and on')
    expect(events.resyncs(worker.id)).toEqual([outcome])
    expect(sink.of('begin', worker.id)).toHaveLength(1)
    expect(events.ends(worker.id)).toEqual([])
  })

  test.each(['upstream_resynced', 'compacted'] as const)(
    'whose snapshot says something else begins a new list: %s',
    async reason => {
      const worker = await observed()
      await told(worker, 'a text of the model', 'another text')
      sink.outcomes.set(worker.id, { outcome: 'differs', reason })
      sink.needs(worker.id, due)
      await sink.next('resync', worker.id)
      sink.needs(worker.id, { due: false })
      expect((await sink.next('begin', worker.id, 2)).reason).toBe(reason)
      expect(events.ends(worker.id)).toEqual(['resynced'])
      expect(askedFrom()).toEqual([null, null, null])
      expect(sink.of('closed', worker.id)).toMatchObject([{ resumable: false }])
      // Viewers are not told of a connection that is gone for a moment by our own doing.
      expect(sink.of('status', worker.id).map(({ change }) => change.upstream)).toEqual(['live'])
      await runtime.traffic.until(() => runtime.connectionsOpen === 1)
    },
  )

  test('is not asked while it is not due, or the worker does not rest', async () => {
    const worker = await observed()
    sink.needs(worker.id, { due: true, idle: false })
    sink.needs(worker.id, { due: false, idle: true })
    await events.more('discovered', 6)
    expect(fetched()).toBe(0)
  })

  test('throws a snapshot away that is running, and asks again', async () => {
    const worker = await observed()
    statusOf(worker, 'running')
    sink.needs(worker.id, due)
    await events.until(() => events.resyncs(worker.id).length >= 2)
    expect(new Set(events.resyncs(worker.id))).toEqual(new Set(['thrown_away']))
    expect(sink.of('resync', worker.id)).toEqual([])
    statusOf(worker, 'idle')
    await sink.next('resync', worker.id)
  })

  test('throws the stand-in of a stopped worker away', async () => {
    const worker = await observed({ lingerMs: 60_000 })
    worker.stop()
    sink.needs(worker.id, due)
    await events.until(() => events.resyncs(worker.id).length === 1)
    expect(events.resyncs(worker.id)).toEqual(['thrown_away'])
    expect(sink.of('resync', worker.id)).toEqual([])
  })

  test('throws a snapshot away where the stream moved while it was fetched', async () => {
    const worker = await observed()
    let version = 0
    runtime.intercept = kind => {
      if (kind === 'upgrade' && version === 0) {
        version = 1
        sink.needs(worker.id, { version })
      }
      return undefined
    }
    sink.needs(worker.id, due)
    await sink.next('resync', worker.id)
    expect(events.resyncs(worker.id).slice(0, 2)).toEqual(['thrown_away', 'same'])
  })

  test('throws a snapshot away that is ahead of what still comes on the connection that stands', async () => {
    const worker = await observed()
    sink.onAccept = () => sink.needs(worker.id, { version: sink.of('accept', worker.id).length })
    const standing = [...worker.observers][0]
    runtime.intercept = kind => {
      if (kind === 'upgrade') {
        runtime.intercept = undefined
        standing?.stall()
        say(worker, 'ahead')
      }
      return undefined
    }
    sink.needs(worker.id, due)
    await runtime.traffic.until(() => fetched() === 1 && runtime.connectionsOpen === 1)
    expect(sink.of('resync', worker.id)).toEqual([])
    standing?.resume()
    await sink.next('resync', worker.id)
    expect(sink.texts(worker.id)).toEqual(['ahead'])
    expect(events.resyncs(worker.id).slice(0, 2)).toEqual(['thrown_away', 'same'])
  })

  test('that cannot connect leaves the connection that stands alone', async () => {
    const worker = await observed()
    wrong.refuseUpgrades(unavailable, 1)
    sink.needs(worker.id, due)
    await sink.next('resync', worker.id)
    expect(events.resyncs(worker.id).slice(0, 2)).toEqual(['failed', 'same'])
    expect(events.ends(worker.id)).toEqual([])
  })

  test('waits while reading stands still', async () => {
    const worker = await observed()
    sink.maxQueuedBytes = 1_000
    sink.queueing = true
    say(worker, 'x'.repeat(2_000))
    await events.until(e => e.count('paused') > 0)
    sink.needs(worker.id, due)
    await events.more('discovered', 6)
    expect(fetched()).toBe(0)
    sink.queueing = false
    sink.relieve()
    await sink.next('resync', worker.id)
  })

  test('under way when the source ends is let go', async () => {
    await using proxy = await startCuttingProxy(runtime.url)
    const worker = runtime.addWorker()
    startSource({ handshakeMs: 600_000 }, {}, proxy)
    await sink.next('begin', worker.id)
    runtime.intercept = kind => {
      if (kind === 'upgrade') proxy.stall()
      return undefined
    }
    sink.needs(worker.id, due)
    await runtime.traffic.until(() => fetched() === 1)
    await end()
    expect(sink.of('resync', worker.id)).toEqual([])
  })
})

test('snapshots are fetched two seconds apart at least, over reconnects too, and more seldom in vain', async () => {
  await startRuntime('events-ws')
  const clock = new VirtualClock()
  const worker = await observed(RUNTIME_LIMITS, { clock, random: () => 1 })
  const fetches = (count: number) => events.until(() => events.resyncs(worker.id).length === count)
  sink.needs(worker.id, { due: true, idle: true })
  await fetches(1)
  await clock.waiting(ms => ms === 2_000)
  await clock.advance(1_000)
  wrong.cut()
  await clock.waiting(ms => ms === 250)
  await clock.advance(250)
  await events.until(() => events.verdicts(worker.id).length === 1)
  await clock.waiting(ms => ms === 750)
  await clock.advance(749)
  expect(events.resyncs(worker.id)).toHaveLength(1)
  statusOf(worker, 'running')
  await clock.advance(1)
  await fetches(2)
  expect(events.resyncs(worker.id)).toEqual(['same', 'thrown_away'])
  for (const [count, ms] of [4_000, 8_000, 16_000, 16_000].entries()) {
    await clock.waiting(wait => wait === ms)
    await clock.advance(ms)
    await fetches(3 + count)
  }
})
