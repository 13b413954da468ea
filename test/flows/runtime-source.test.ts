import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type HttpAnswer, json, refusal } from '../../src/embedded-runtime/answer.ts'
import type { Generation } from '../../src/embedded-runtime/events.ts'
import { type Misbehaviour, misbehave, unavailable } from '../../src/embedded-runtime/misbehave.ts'
import { type EmbeddedRuntime, startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'
import { RUNTIME_LIMITS, type RuntimeLimits } from '../../src/sources/runtime/limits.ts'
import {
  createRuntimeSource,
  type RuntimeSourceConfig,
  type RuntimeSourceDeps,
} from '../../src/sources/runtime/runtime-source.ts'
import type { Source } from '../../src/sources/source.ts'
import { CollectingEvents, CollectingSink } from '../_support/collecting-sink.ts'
import { VirtualClock } from '../_support/virtual-clock.ts'

const QUICK: Partial<RuntimeLimits> = {
  pollMs: 15,
  lingerMs: 60,
  errorHoldMs: 20,
  retry: { baseMs: 5, maxMs: 20 },
}

let runtime: EmbeddedRuntime
let wrong: Misbehaviour
let sink: CollectingSink
let events: CollectingEvents
let source: Source
let control: AbortController
let end: () => Promise<void>

const startRuntime = async (generation: Generation, store: 'none' | 'memory-store' = 'none') => {
  runtime = await startEmbeddedRuntime({ generation, store, token: 'demo-token' })
  wrong = misbehave(runtime)
}

const startSource = (
  limits: Partial<RuntimeLimits> = {},
  config: Partial<RuntimeSourceConfig> = {},
  deps: Partial<RuntimeSourceDeps> = {},
) => {
  events = new CollectingEvents()
  source = createRuntimeSource(
    { id: 'rt', url: runtime.url, token: 'demo-token', dialect: 'auto', ...config },
    sink,
    { events: events.events, limits: { ...QUICK, ...limits }, ...deps },
  )
  control = new AbortController()
  const running = source.run(control.signal)
  end = async () => {
    control.abort()
    await running
  }
}

const say = (worker: EmbeddedWorker, text: string) => worker.emit({ event: 'text_delta', data: { text } })

const statuses = (worker: string) =>
  runtime.traffic.upgrades.flatMap(({ path, status }) =>
    path.includes(`/${worker}/`) ? [[path.split('/').at(-2), status]] : [],
  )

beforeEach(() => {
  sink = new CollectingSink()
  end = async () => undefined
})

afterEach(async () => {
  await end()
  await runtime.close()
})

describe.each(['events-ws', 'protocol-ws'] as const)('on %s', generation => {
  beforeEach(() => startRuntime(generation))

  test('a running worker is observed when it is discovered, nobody having asked', async () => {
    const worker = runtime.addWorker({ profile: 'builder' })
    say(worker, 'before ')
    startSource()
    const begin = await sink.next('begin', worker.id)
    expect(JSON.parse(begin.snapshot.payload).event).toBe('snapshot')
    say(worker, 'after')
    await sink.until(s => s.texts(worker.id).includes('after'))
    expect(sink.of('open', worker.id)).toEqual([{ kind: 'open', worker: worker.id, profile: 'builder' }])
    expect(source.workers()).toMatchObject([{ worker: worker.id, profile: 'builder' }])
    expect(source.upstream(worker.id)).toMatchObject({ upstream: 'live', worker: worker.id })
    expect(source.upstream()).toMatchObject({ runtime: 'rt', upstream: 'live' })
    expect(runtime.connectionsOpen).toBe(1)
  })

  test('twenty workers are each observed once, with all of their events in order', async () => {
    const workers = Array.from({ length: 20 }, () => runtime.addWorker())
    startSource({ connectsAtOnce: 3 })
    await sink.until(s => s.of('begin').length === 20)
    for (let n = 0; n < 50; n += 1) for (const worker of workers) say(worker, `${n}`)
    const all = Array.from({ length: 50 }, (_, n) => `${n}`)
    for (const worker of workers) {
      await sink.until(s => s.texts(worker.id).length === 50)
      expect(sink.texts(worker.id)).toEqual(all)
      expect(sink.of('begin', worker.id)).toHaveLength(1)
    }
    const ids = new Set(sink.of('accept').map(({ worker, envelope }) => `${worker} ${envelope.eventId}`))
    expect(ids.size).toBe(20 * 50)
  })

  test('a connection that is cut comes back as a reset that cannot be verified', async () => {
    const worker = runtime.addWorker()
    startSource()
    await sink.next('begin', worker.id)
    wrong.cut(worker.id)
    const again = await sink.next('begin', worker.id, 2)
    expect(again.reason).toBe('upstream_unverifiable')
    expect(sink.of('status', worker.id).map(({ change }) => change.upstream)).toEqual([
      'live',
      'reconnecting',
      'live',
    ])
    say(worker, 'and on')
    await sink.until(s => s.texts(worker.id).includes('and on'))
  })

  test('a Runtime that is killed and started again is found again, whoever its workers are', async () => {
    const worker = runtime.addWorker()
    startSource()
    await sink.next('begin', worker.id)
    let back: EmbeddedWorker | undefined
    await runtime.restart({
      whileDown: async () => {
        await sink.reaches(undefined, 'reconnecting', 'upstream_unreachable')
        await sink.reaches(worker.id, 'reconnecting')
        back = runtime.addWorker({ workerId: worker.id })
      },
    })
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('upstream_unverifiable')
    await sink.reaches(undefined, 'live')
    if (back !== undefined) say(back, 'new life')
    await sink.until(s => s.texts(worker.id).includes('new life'))
  })

  test('a worker that is gone keeps its list, and one that comes back under its id is a new incarnation', async () => {
    const worker = runtime.addWorker()
    startSource()
    await sink.next('begin', worker.id)
    runtime.deleteWorker(worker.id)
    await sink.reaches(worker.id, 'gone', 'upstream_worker_gone')
    expect(sink.of('stopped', worker.id)).toHaveLength(1)
    expect(events.ends(worker.id)).toEqual(['left'])
    runtime.addWorker({ workerId: worker.id })
    await sink.next('begin', worker.id, 2)
    await sink.reaches(worker.id, 'live')
  })

  test('the last words of a worker that stops still come, and then its connection is let go', async () => {
    const worker = runtime.addWorker()
    startSource()
    await sink.next('begin', worker.id)
    say(worker, 'last words')
    worker.stop()
    await sink.reaches(worker.id, 'gone')
    expect(sink.texts(worker.id)).toEqual(['last words'])
    expect(sink.of('accept', worker.id).at(-1)?.envelope.payload).toContain('shutdown')
    expect(sink.of('stopped', worker.id)).toHaveLength(1)
    source.wanted(worker.id)
    await events.more('discovered', 6)
    expect(runtime.connectionsOpen).toBe(0)
    expect(sink.of('begin', worker.id)).toHaveLength(1)
  })

  test('a worker that never ran here is not connected, and looked at once when it is asked for', async () => {
    const worker = runtime.addWorker()
    worker.stop()
    startSource()
    await sink.reaches(worker.id, 'gone')
    expect(runtime.traffic.upgrades).toEqual([])
    source.wanted(worker.id)
    await sink.reaches(worker.id, 'gone', 'history_unavailable')
    source.wanted(worker.id)
    await events.more('discovered', 6)
    expect(runtime.traffic.upgrades.filter(({ status }) => status === 101)).toHaveLength(1)
    expect(sink.of('begin', worker.id)).toEqual([])
    expect(sink.of('stopped', worker.id)).toEqual([])
  })

  test('of a stopped worker that is known the list stays: its stand-in is not taken for one', async () => {
    const worker = runtime.addWorker()
    sink.known.add(worker.id)
    worker.stop()
    startSource()
    source.wanted(worker.id)
    await sink.next('stopped', worker.id)
    expect(sink.of('begin', worker.id)).toEqual([])
    expect(source.upstream(worker.id)).toMatchObject({ upstream: 'gone' })
    expect(source.upstream(worker.id).code).toBeUndefined()
  })

  test('another profile is told, and replaces the list as a change of the worker', async () => {
    const worker = runtime.addWorker({ profile: 'builder' })
    startSource()
    await sink.next('begin', worker.id)
    runtime.intercept = (kind, path) =>
      kind === 'request' && path === '/v1/workers'
        ? json(
            `{"workers":[{"worker_id":${worker.idJson},"status":"running","profile":{"kind":"named","value":"guest"}}]}`,
          )
        : undefined
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('worker_changed')
    const order = sink.all.flatMap(({ kind }) => (kind === 'profile' || kind === 'begin' ? [kind] : []))
    expect(order).toEqual(['begin', 'profile', 'begin'])
    expect(sink.of('profile', worker.id)).toEqual([{ kind: 'profile', worker: worker.id, profile: 'guest' }])
  })

  test('a wrong token is told as such, of the Runtime and of its workers, until it is right again', async () => {
    const worker = runtime.addWorker()
    startSource()
    await sink.next('begin', worker.id)
    wrong.changeToken('another')
    await sink.reaches(undefined, 'degraded', 'upstream_unauthorized')
    wrong.cut()
    await sink.reaches(worker.id, 'degraded', 'upstream_unauthorized')
    wrong.changeToken('demo-token')
    await sink.next('begin', worker.id, 2)
    await sink.reaches(undefined, 'live')
  })

  test('a frame that cannot be taken is rejected and the stream goes on', async () => {
    const worker = runtime.addWorker()
    startSource({ frameBytes: 10_000 })
    await sink.next('begin', worker.id)
    wrong.malformed(worker.id)
    wrong.binary(worker.id)
    wrong.oversizeEvent(worker.id, 20_000)
    wrong.unknownEvent(worker.id)
    say(worker, 'on')
    await sink.until(s => s.texts(worker.id).includes('on'))
    expect(sink.of('reject', worker.id).map(({ frame }) => frame.cause)).toEqual([
      'malformed',
      'binary',
      'too_large',
    ])
    expect(sink.of('accept', worker.id)[0]?.envelope.payload).toContain('weather_report')
    expect(events.count('rejected')).toBe(3)
    expect(sink.of('begin', worker.id)).toHaveLength(1)
  })

  test('a frame beyond the hard limit is an announced gap', async () => {
    const worker = runtime.addWorker({ log: 'off' })
    startSource({ hardFrameBytes: 50_000 })
    await sink.next('begin', worker.id)
    wrong.oversizeEvent(worker.id, 100_000)
    expect((await sink.next('begin', worker.id, 2)).reason).toBe('upstream_gap')
    expect(events.ends(worker.id)).toEqual(['frame_too_large'])
  })

  test('a snapshot beyond the hard limit is told and retried seldom, and its neighbours are not disturbed', async () => {
    const worker = runtime.addWorker()
    const other = runtime.addWorker()
    wrong.oversizeSnapshot(worker.id, 100_000)
    startSource({ hardFrameBytes: 50_000, slowRetry: { baseMs: 3_600_000, maxMs: 3_600_000 } })
    await sink.reaches(worker.id, 'degraded', 'snapshot_too_large')
    await sink.reaches(other.id, 'live')
    await events.more('discovered', 6)
    expect(events.ends(worker.id)).toEqual(['snapshot_too_large'])
    expect(sink.of('begin', worker.id)).toEqual([])
  })

  test('an overrun connection is reset, and its last frame is not the worker’s', async () => {
    const worker = runtime.addWorker()
    startSource()
    await sink.next('begin', worker.id)
    say(worker, 'a')
    wrong.overrun(worker.id)
    const { reason } = await sink.next('begin', worker.id, 2)
    // Only the first generation says by a code what happened.
    expect(reason).toBe(generation === 'events-ws' ? 'upstream_gap' : 'upstream_unverifiable')
    expect(sink.of('accept', worker.id).map(({ envelope }) => JSON.parse(envelope.payload).event)).toEqual([
      'text_delta',
    ])
  })

  test('connections that answer no ping die and come back', async () => {
    const worker = runtime.addWorker()
    startSource({ pingAfterMs: 20, silentMs: 40 })
    await sink.next('begin', worker.id)
    wrong.stall(worker.id)
    await sink.next('begin', worker.id, 2)
    expect(events.ends(worker.id)[0]).toBe('silent')
  })

  test('past the bound the sockets stand still, and nothing is lost or doubled when they go on', async () => {
    const worker = runtime.addWorker({ log: 'off' })
    sink.maxQueuedBytes = 20_000
    startSource()
    await sink.next('begin', worker.id)
    sink.queueing = true
    const sent = Array.from({ length: 100 }, (_, n) => `${n} ${'x'.repeat(1_000)}`)
    for (const text of sent) say(worker, text)
    await events.until(e => e.count('paused') > 0)
    sink.queueing = false
    sink.relieve()
    await sink.until(s => s.texts(worker.id).length === 100)
    expect(sink.texts(worker.id)).toEqual(sent)
    expect(sink.of('begin', worker.id)).toHaveLength(1)
  })

  test('a journal that does not take what comes costs the connection, not the source', async () => {
    const worker = runtime.addWorker()
    startSource()
    await sink.next('begin', worker.id)
    sink.failing = 'accept'
    say(worker, 'lost')
    await sink.reaches(worker.id, 'journal_unavailable')
    sink.failing = null
    await sink.until(s => s.of('begin', worker.id).at(-1)?.reason === 'upstream_gap')
    say(worker, 'taken')
    await sink.until(s => s.texts(worker.id).includes('taken'))
  })

  test('an input is forwarded to a listed worker, and refusals come as typed errors', async () => {
    const worker = runtime.addWorker()
    startSource()
    await sink.next('begin', worker.id)
    const { signal } = new AbortController()
    await source.sendInput(worker.id, 'hello', signal)
    expect(runtime.traffic.inputs.map(({ body }) => JSON.parse(body))).toEqual([
      { kind: 'user', content: 'hello' },
    ])
    await sink.until(s =>
      s.of('accept', worker.id).some(({ envelope }) => envelope.payload.includes('hello')),
    )
    await expect(source.sendInput('../x', 'hello', signal)).rejects.toMatchObject({
      code: 'worker_not_found',
    })
    await expect(source.sendInput(worker.id, ' ', signal)).rejects.toMatchObject({ code: 'bad_request' })
    wrong.refuseRequests(refusal(409, 'worker_execution_rejected', 'busy'), 1)
    await expect(source.sendInput(worker.id, 'hello', signal)).rejects.toMatchObject({ code: 'worker_busy' })
  })

  test('the end leaves no socket, whatever stood open, waited or was held', async () => {
    const workers = Array.from({ length: 5 }, () => runtime.addWorker())
    startSource({ connectsAtOnce: 2 })
    await sink.until(s => s.of('begin').length === 3)
    wrong.cut(workers[0]?.id)
    await end()
    await runtime.traffic.until(() => runtime.connectionsOpen === 0)
    expect(getEventListeners(control.signal, 'abort')).toEqual([])
    const told = sink.all.length
    for (const worker of workers) say(worker, 'unheard')
    expect(sink.all).toHaveLength(told)
  })

  test('who asks for a running worker again and again changes nothing upstream', async () => {
    const worker = runtime.addWorker()
    startSource()
    for (let n = 0; n < 5; n += 1) source.wanted(worker.id)
    await sink.next('begin', worker.id)
    for (let n = 0; n < 5; n += 1) source.wanted(worker.id)
    await events.more('discovered', 6)
    expect(runtime.connectionsOpen).toBe(1)
    expect(sink.of('begin', worker.id)).toHaveLength(1)
  })
})

describe('in virtual time', () => {
  let clock: VirtualClock

  beforeEach(async () => {
    await startRuntime('events-ws')
    clock = new VirtualClock()
  })

  const startVirtual = () => startSource(RUNTIME_LIMITS, {}, { clock, random: () => 1 })
  const poll = async () => {
    const polled = events.more('discovered', 1)
    await clock.advance(RUNTIME_LIMITS.pollMs)
    await polled
  }
  const listAs = (worker: EmbeddedWorker, status: string, upgrades?: HttpAnswer) => {
    runtime.intercept = (kind, path) =>
      kind === 'upgrade'
        ? upgrades
        : path === '/v1/workers'
          ? json(`{"workers":[{"worker_id":${worker.idJson},"status":"${status}","profile":"demo"}]}`)
          : undefined
  }

  test('each failure doubles the wait, and a connection that held for a while begins anew', async () => {
    const worker = runtime.addWorker()
    wrong.refuseUpgrades(unavailable, 3)
    startVirtual()
    for (const ms of [250, 500, 1_000]) {
      await clock.waiting(wait => wait === ms)
      await clock.advance(ms)
    }
    await sink.next('begin', worker.id)
    await poll()
    wrong.cut()
    await clock.waiting(wait => wait === 2_000)
    await clock.advance(2_000)
    await sink.next('begin', worker.id, 2)
    for (let n = 0; n < 3; n += 1) await poll()
    wrong.cut()
    await clock.waiting(wait => wait === 250)
  })

  test('a worker listed as over for a moment keeps its connection, and one that stays so is let go', async () => {
    const worker = runtime.addWorker()
    listAs(worker, 'idle')
    startVirtual()
    await sink.next('begin', worker.id)
    listAs(worker, 'cancelled')
    for (let n = 0; n < 2; n += 1) await poll()
    listAs(worker, 'running')
    for (let n = 0; n < 4; n += 1) await poll()
    expect(events.ends(worker.id)).toEqual([])
    listAs(worker, 'cancelled')
    for (let n = 0; n < 4; n += 1) await poll()
    await sink.reaches(worker.id, 'gone')
    expect(events.ends(worker.id)).toEqual(['left'])
  })

  test('a worker whose activity alone changes is not retried sooner', async () => {
    const worker = runtime.addWorker()
    const notFound = refusal(404, 'worker_not_found', 'gone')
    listAs(worker, 'idle', notFound)
    startVirtual()
    await sink.reaches(worker.id, 'gone', 'upstream_worker_gone')
    await clock.waiting(wait => wait === RUNTIME_LIMITS.slowRetry.baseMs)
    for (const status of ['running', 'idle', 'paused', 'running']) {
      listAs(worker, status, notFound)
      await poll()
    }
    await poll()
    expect(events.ends(worker.id)).toEqual(['worker_gone'])
  })

  test('when a Runtime that was away answers again, its workers do not wait for their turn', async () => {
    const worker = runtime.addWorker()
    startVirtual()
    await sink.next('begin', worker.id)
    wrong.refuseUpgrades(unavailable, Number.POSITIVE_INFINITY)
    wrong.refuseRequests(unavailable, Number.POSITIVE_INFINITY)
    wrong.cut()
    for (const ms of [250, 500, 1_000, 2_000, 4_000, 8_000]) {
      await clock.waiting(wait => wait === ms)
      await clock.advance(ms)
    }
    await clock.waiting(wait => wait === 16_000)
    wrong.behave()
    await clock.advance(RUNTIME_LIMITS.pollMs)
    await sink.next('begin', worker.id, 2)
    expect(clock.waits).not.toContain(16_000)
  })
})

test('auto finds the dialect of a Runtime, and of another generation that takes its place', async () => {
  await startRuntime('events-ws')
  const id = '01a22d33-3429-7254-b7a9-f895bc3e8306'
  const before = runtime.addWorker()
  startSource()
  await sink.next('begin', before.id)
  const { port } = runtime
  await runtime.close()
  runtime = await startEmbeddedRuntime({ generation: 'protocol-ws', token: 'demo-token', port })
  wrong = misbehave(runtime)
  runtime.addWorker({ workerId: id })
  await sink.next('begin', id)
  expect(statuses(id)).toEqual([
    ['events', 404],
    ['protocol', 101],
  ])
  wrong.cut()
  await sink.next('begin', id, 2)
  expect(statuses(id).slice(2)).toEqual([['protocol', 101]])
})

test('auto does not wait on the silent route of a first generation that takes the place of a later one', async () => {
  await startRuntime('protocol-ws')
  const before = runtime.addWorker()
  startSource()
  await sink.next('begin', before.id)
  const { port } = runtime
  await runtime.close()
  await sink.reaches(undefined, 'reconnecting')
  runtime = await startEmbeddedRuntime({ generation: 'events-ws', token: 'demo-token', port })
  const worker = runtime.addWorker()
  await sink.next('begin', worker.id)
  expect(statuses(worker.id)).toEqual([['events', 101]])
})

test('who has a connection keeps it, in whatever order the workers are listed', async () => {
  await startRuntime('events-ws')
  const [first, second] = [runtime.addWorker(), runtime.addWorker()]
  startSource({ connections: 1, lingerMs: 20 })
  await sink.next('begin', first.id)
  const rows = [second, first].map(
    ({ idJson }) => `{"worker_id":${idJson},"status":"running","profile":"demo"}`,
  )
  runtime.intercept = (_kind, path) =>
    path === '/v1/workers' ? json(`{"workers":[${rows.join(',')}]}`) : undefined
  await events.more('discovered', 6)
  expect(events.ends(first.id)).toEqual([])
  expect(sink.of('begin', second.id)).toEqual([])
})

test('with a dialect that the Runtime does not have, the worker is degraded', async () => {
  await startRuntime('protocol-ws')
  const worker = runtime.addWorker()
  startSource({}, { dialect: 'events-ws' })
  await sink.reaches(worker.id, 'degraded', 'upstream_route_missing')
})

test('the silent protocol route of a first-generation Runtime is not waited for', async () => {
  await startRuntime('events-ws')
  const worker = runtime.addWorker()
  startSource({ snapshotMs: 20 }, { dialect: 'protocol-ws' })
  await sink.reaches(worker.id, 'degraded', 'upstream_protocol')
  expect(events.ends(worker.id)[0]).toBe('no_snapshot')
})

test('workers beyond the limit of connections are counted, and one takes a place that falls free', async () => {
  await startRuntime('events-ws')
  const workers = [runtime.addWorker(), runtime.addWorker(), runtime.addWorker()]
  startSource({ connections: 2, listedWorkers: 3 })
  const [first, , third] = workers.map(({ id }) => id)
  await sink.reaches(third, 'degraded', 'connection_limit')
  await sink.until(s => s.of('begin').length === 2)
  expect(events.seen.find(({ name }) => name === 'discovered')?.at).toMatchObject({
    workers: 3,
    beyondLimit: 1,
  })
  if (first !== undefined) runtime.worker(first).stop()
  await sink.next('begin', third)
})

test('a cancelled worker still has its history, and is looked at once', async () => {
  await startRuntime('events-ws')
  const worker = runtime.addWorker()
  say(worker, 'said')
  worker.cancel()
  worker.life = 'cancelled'
  startSource()
  source.wanted(worker.id)
  await sink.next('begin', worker.id)
  await events.more('disconnected', 1)
  expect(events.ends(worker.id)).toEqual(['looked'])
  expect(source.upstream(worker.id)).toMatchObject({ upstream: 'gone' })
})

test('a Runtime that is away is waited for, and its address stands in nothing that is told', async () => {
  await startRuntime('events-ws')
  const { port } = runtime
  await runtime.close()
  startSource({ pollMs: 5 })
  await sink.reaches(undefined, 'reconnecting', 'upstream_unreachable')
  expect(source.upstream('1')).toMatchObject({ upstream: 'reconnecting' })
  await expect(source.sendInput('1', 'x', new AbortController().signal)).rejects.toMatchObject({
    code: 'worker_not_found',
  })
  await events.more('discoveryFailed', 3)
  expect(JSON.stringify([sink.all, events.seen])).not.toContain(String(port))
  await runtime.listen()
  const worker = runtime.addWorker()
  await sink.next('begin', worker.id)
})

test('an address or token that cannot be used is refused at once, and stands not in the error', async () => {
  await startRuntime('events-ws')
  const { events: none } = new CollectingEvents()
  for (const bad of [
    { url: 'ftp://10.0.0.5' },
    { url: 'http://user:secret@10.0.0.5' },
    { url: 'nonsense 10.0.0.5' },
    { url: 'http://10.0.0.5?x=1' },
    { token: 'secret\r\nx: y' },
  ]) {
    const make = () =>
      createRuntimeSource({ id: 'rt', url: 'http://10.0.0.5', dialect: 'auto', ...bad }, sink, {
        events: none,
      })
    expect(make).toThrow(
      expect.objectContaining({ code: 'config_invalid', message: expect.not.stringMatching(/10\.0|secret/) }),
    )
  }
})

test('the limits are those of the design', () => {
  expect(RUNTIME_LIMITS).toMatchObject({
    pollMs: 5_000,
    connectsAtOnce: 8,
    connections: 1_000,
    fenceMs: 10_000,
    pingAfterMs: 30_000,
    silentMs: 45_000,
    retry: { baseMs: 250, maxMs: 30_000 },
  })
})
