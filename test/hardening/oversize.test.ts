/** Frames that can't be taken: each is announced, and none makes Shoji connect again and again. */
import { setTimeout as after } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { misbehave } from '../../src/embedded-runtime/misbehave.ts'
import { type EmbeddedRuntime, startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import type { SqliteJournal } from '../../src/journal/sqlite/journal.ts'
import type { RuntimeLimits } from '../../src/sources/runtime/limits.ts'
import { QUICK, said, tell, untilKnown } from '../_support/flow.ts'
import { startShoji, TOKENS } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'

const MiB = 1024 * 1024
/** So long nothing may happen that would go on happening. */
const WATCH_MS = 2_500

async function start(
  generation: 'events-ws' | 'protocol-ws',
  options: { limits?: Partial<RuntimeLimits>; log?: 'on' | 'off' } = {},
) {
  const runtime = await startEmbeddedRuntime({
    generation,
    queueEvents: 100_000,
    socketBufferBytes: 256 * MiB,
  })
  const worker = runtime.addWorker({ log: options.log ?? 'off' })
  let journal: SqliteJournal | undefined
  const shoji = await startShoji({
    runtimes: [{ id: 'rt', url: runtime.url }],
    overrides: {
      ...QUICK,
      runtimeLimits: { ...QUICK.runtimeLimits, ...options.limits },
      onJournal(opened) {
        journal = opened
      },
    },
  })
  return {
    runtime,
    worker,
    shoji,
    quarantined: () => journal!.readQuarantine(10),
    open: () =>
      TestStream.open(`${shoji.url}/api/runtimes/rt/events`, { token: TOKENS.admin, timeoutMs: 30_000 }),
    async [Symbol.asyncDispose]() {
      await shoji[Symbol.asyncDispose]()
      await runtime.close()
    },
  }
}

const upgradesOf = ({ traffic }: EmbeddedRuntime): number =>
  traffic.upgrades.filter(seen => seen.status === 101).length

const gapsOf = (stream: TestStream): unknown[] =>
  stream.frames.flatMap(f => (f.event === 'gap' ? [f.data.reason] : []))

const resetsOf = (stream: TestStream): unknown[] =>
  stream.frames.flatMap(f => (f.event === 'reset' ? [f.data.reason] : []))

const statusesOf = (stream: TestStream): string[] =>
  stream.frames.flatMap(f =>
    f.event === 'status' && f.data.worker !== undefined ? [`${f.data.upstream} ${f.data.code ?? ''}`] : [],
  )

for (const generation of ['events-ws', 'protocol-ws'] as const) {
  it(`case 91: an event of 9 MiB from a Runtime of ${generation} is a gap, and nothing else changes`, async () => {
    await using at = await start(generation)
    const { runtime, worker } = at
    await untilKnown(at.shoji, 1)
    using live = await at.open()
    await live.untilLive()
    const before = upgradesOf(runtime)
    tell(worker, 'before')
    misbehave(runtime).oversizeEvent(worker.id, 9 * MiB)
    tell(worker, 'after')
    await live.until(s => said(s.frames).includes('after'), 'what follows')
    expect(live.frames.filter(f => f.event === 'envelope' || f.event === 'gap').map(f => f.event)).toEqual([
      'envelope',
      'gap',
      'envelope',
    ])
    expect(gapsOf(live)).toEqual(['upstream_frame_rejected'])
    expect(upgradesOf(runtime)).toBe(before)
    const [kept] = await at.quarantined()
    expect(kept).toMatchObject({ cause: 'too_large' })
    expect(kept!.bytes).toBeGreaterThan(9 * MiB)
    expect(kept!.body.length).toBeLessThanOrEqual(64 * 1024)
    expect(resetsOf(live)).toEqual([])
  })

  it(`case 91: a frame of broken JSON from a Runtime of ${generation} is a gap, and nothing else changes`, async () => {
    await using at = await start(generation)
    const { runtime, worker } = at
    await untilKnown(at.shoji, 1)
    using live = await at.open()
    await live.untilLive()
    const before = upgradesOf(runtime)
    for (const text of ['{"kind":"event","envelope":{', '[]', '"text"', '{"event":7}', ''])
      misbehave(runtime).malformed(worker.id, text)
    tell(worker, 'after')
    await live.until(s => said(s.frames).includes('after'), 'what follows')
    expect(gapsOf(live)).toEqual(Array(5).fill('upstream_frame_rejected'))
    expect(upgradesOf(runtime)).toBe(before)
    expect((await at.quarantined()).map(frame => frame.cause)).toEqual(Array(5).fill('malformed'))
  })
}

it('case 91: a snapshot beyond the hard limit is told as degraded and tried again slowly, until it can be read', async () => {
  const slowRetry = { baseMs: 600, maxMs: 1_000 }
  await using at = await start('events-ws', { limits: { hardFrameBytes: 256 * 1024, slowRetry }, log: 'on' })
  const { runtime, worker } = at
  await untilKnown(at.shoji, 1)
  using live = await at.open()
  await live.untilLive()
  tell(worker, 'before')
  await live.until(s => said(s.frames).includes('before'), 'before')
  misbehave(runtime).oversizeSnapshot(worker.id, MiB)
  const before = upgradesOf(runtime)
  misbehave(runtime).cut(worker.id)
  await live.until(s => statusesOf(s).includes('degraded snapshot_too_large'), 'the status')
  await after(WATCH_MS)
  const tries = upgradesOf(runtime) - before
  expect(tries).toBeGreaterThanOrEqual(2)
  expect(tries).toBeLessThanOrEqual(2 + WATCH_MS / slowRetry.baseMs)
  // What was known stands meanwhile.
  expect(resetsOf(live)).toEqual([])
  expect(live.ended).toBe(false)
  misbehave(runtime).oversizeSnapshot(worker.id, 0)
  // By a proof or by a reset: either way it goes on.
  await live.until(s => statusesOf(s).at(-1) === 'live ', 'live again')
  tell(worker, 'after')
  await live.until(s => said(s.frames).includes('after'), 'what follows')
})

it('case 91: a snapshot that is always beyond the hard limit is asked for once, and then not for a minute', async () => {
  const { slowRetry: _, ...quick } = QUICK.runtimeLimits!
  await using runtime = await startEmbeddedRuntime({ generation: 'events-ws' })
  const worker = runtime.addWorker()
  misbehave(runtime).oversizeSnapshot(worker.id, MiB)
  await using shoji = await startShoji({
    runtimes: [{ id: 'rt', url: runtime.url }],
    overrides: { runtimeLimits: { ...quick, hardFrameBytes: 256 * 1024 } },
  })
  await runtime.traffic.until(() => upgradesOf(runtime) > 0)
  using live = await TestStream.open(`${shoji.url}/api/runtimes/rt/workers/${worker.id}/events`, {
    token: TOKENS.admin,
  })
  await live.until(s => statusesOf(s).includes('degraded snapshot_too_large'), 'the status')
  await after(WATCH_MS)
  expect(upgradesOf(runtime)).toBe(1)
  expect((await fetch(`${shoji.url}/readyz`)).status).toBe(200)
})

it('case 91: an event beyond the hard limit costs its connection once, and is announced as a gap upstream', async () => {
  await using at = await start('events-ws', { limits: { hardFrameBytes: 256 * 1024 } })
  const { runtime, worker } = at
  await untilKnown(at.shoji, 1)
  using live = await at.open()
  await live.untilLive()
  const before = upgradesOf(runtime)
  misbehave(runtime).oversizeEvent(worker.id, MiB)
  await live.untilFrame('reset')
  tell(worker, 'after')
  await live.until(s => said(s.frames).includes('after'), 'what follows')
  await after(WATCH_MS)
  expect(resetsOf(live)).toEqual(['upstream_gap'])
  expect(upgradesOf(runtime)).toBe(before + 1)
})
