import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Generation } from '../../src/embedded-runtime/events.ts'
import { type Misbehaviour, misbehave } from '../../src/embedded-runtime/misbehave.ts'
import { startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'
import { type RunningShoji, startShoji, TOKENS } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'
import { type Fault, LAST_RUN, type Script, script, stepsOf, Teller } from './_continuity-script.ts'
import { logged, seen } from './_continuity-truth.ts'
import { runs } from './_world.ts'

/**
 * The same random lives as in the model, a worker each, through real sockets and the whole of Shoji: here the
 * connections, their fences and the fetching of snapshots are the real ones, and so is time.
 */
const limits = {
  pollMs: 50,
  retry: { baseMs: 5, maxMs: 40 },
  connectsAtOnce: 32,
  resyncEveryMs: 200,
  mismatchMs: 400,
}

const quick = script({ cut: 5, evict: 2, lose: 2, double: 1 })

it.each<Generation>(['events-ws', 'protocol-ws'])(
  'ends with what the log says, over sockets, %s',
  async generation => {
    const { numRuns, seed = Date.now() & 0x7fffffff } = runs(24)
    process.stdout.write(`seed ${seed}\n`)
    const scripts = fc.sample(quick, { numRuns, seed }).map((one): Script => ({ ...one, generation }))
    await using runtime = await startEmbeddedRuntime({
      generation,
      queueEvents: 1_000_000,
      backlogEvents: 100_000,
      socketBufferBytes: 64 * 1024 * 1024,
    })
    const wrong = misbehave(runtime)
    const workers = scripts.map(() => runtime.addWorker())
    await using shoji = await startShoji({
      runtimes: [{ id: 'rt', url: runtime.url }],
      extra: 'limits: { streams: 10000, streams_per_user: 10000 }',
      overrides: { runtimeLimits: limits },
    })
    const streams = await Promise.all(workers.map(worker => watch(shoji, worker)))
    const marks = await Promise.all(scripts.map((one, n) => play(one, workers[n]!, wrong, `${n}-`)))
    for (const [n, stream] of streams.entries()) {
      const worker = workers[n]!
      const about = JSON.stringify(scripts[n])
      const truth = () => logged(JSON.parse(worker.snapshotData()).entries)
      const shown = () => {
        const state = stream.state.workers[`rt/${worker.id}`]?.state
        return state === undefined ? null : seen(state, stream.frames, marks[n]!)
      }
      const same = (): boolean => {
        const [ours, theirs] = [shown(), truth()]
        const spoken =
          JSON.stringify([ours?.spoken, ours?.results]) === JSON.stringify([theirs.spoken, theirs.results])
        return spoken && theirs.system.every(s => ours?.system.includes(s))
      }
      await stream.until(same, 'the same').catch(() => {})
      expect({ ...shown(), system: [] }, about).toEqual({ ...truth(), system: [] })
      expect(
        truth().system.filter(s => !shown()?.system.includes(s)),
        about,
      ).toEqual([])
      const ids = stream.state.workers[`rt/${worker.id}`]!.state.items.map(({ id }) => id)
      expect(new Set(ids).size, about).toBe(ids.length)
      const resets = stream.frames.flatMap(f => (f.event === 'reset' ? [f.data.reason] : []))
      if (scripts[n]!.faults.every(({ fault }) => fault.kind === 'double')) expect(resets, about).toEqual([])
      stream.cut()
    }
  },
)

async function watch(shoji: RunningShoji, worker: EmbeddedWorker): Promise<TestStream> {
  const url = `${shoji.url}/api/runtimes/rt/workers/${worker.id}/events`
  for (let i = 0; ; i++) {
    const options = { token: TOKENS.admin, query: { history: '1000' }, timeoutMs: 15_000 }
    const stream = await TestStream.open(url, options).catch(error => {
      if (i >= 200) throw error
      return null
    })
    if (stream !== null) return stream.untilFrame('snapshot')
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

/** Returns what the log may lack. */
async function play(
  what: Script,
  worker: EmbeddedWorker,
  wrong: Misbehaviour,
  prefix: string,
): Promise<ReadonlySet<string>> {
  const teller = new Teller(worker)
  const steps = stepsOf(what, prefix)
  let armed = true
  const happen = (fault: Fault): void => {
    if (fault.kind === 'cut') wrong.cut(worker.id)
    else if (fault.kind === 'double' && what.generation === 'events-ws') wrong.double(worker.id, fault.count)
    else if (fault.kind === 'evict') {
      wrong.evict(worker.id, fault.keep)
      if (fault.away !== null) wrong.cut(worker.id)
    } else if (fault.kind === 'lose' && what.generation === 'events-ws')
      wrong.lose(worker.id, fault.count, () => armed)
  }
  for (let at = 0; at <= steps.length; at++) {
    for (const { at: share, fault } of what.faults)
      if (Math.floor(share * (steps.length + 1)) === at) happen(fault)
    steps[at]?.act(teller)
    for (let turns = what.fences[at % what.fences.length]! * 3; turns >= 0; turns--) await nextTurn()
  }
  armed = false
  for (const step of stepsOf({ ...what, said: [LAST_RUN] }, `${prefix}last-`)) step.act(teller)
  return teller.loose
}
