/**
 * Everything that can fail, failing at random times, over real processes: the server and the Runtime killed,
 * the Runtime started again with its store and without it, connections cut and stalled on both sides.
 * `SHOJI_CHAOS_SECONDS` (default 35), `SHOJI_CHAOS_GENERATION` (default `events-ws`), `SHOJI_CHAOS_SEED`.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Frame } from '@shoji/web-contract'
import { expect, it } from 'vitest'
import type { Generation } from '../../src/embedded-runtime/events.ts'
import { openJournalReadOnly } from '../../src/journal/sqlite/read-only.ts'
import { loadPolicyFile } from '../../src/projection/policy/file.ts'
import { account, numbersIn, unevenIn } from '../_support/chaos-judge.ts'
import { type ChaosProcess, startChaosProcess } from '../_support/chaos-process.ts'
import type { Reached } from '../_support/chaos-runtime.ts'
import { startCuttingProxy } from '../_support/cutting-proxy.ts'
import { eventually } from '../_support/flow.ts'
import { judge, Listener } from '../_support/listener.ts'
import { copyServer, startServerProcess } from '../_support/server-process.ts'
import { TOKENS, writeShojiFiles } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'
import { seededRandom } from '../_support/with-delays.ts'

const SECONDS = Number(process.env.SHOJI_CHAOS_SECONDS ?? 35)
const GENERATION: Generation =
  process.env.SHOJI_CHAOS_GENERATION === 'protocol-ws' ? 'protocol-ws' : 'events-ws'
const SEED = Number(process.env.SHOJI_CHAOS_SEED ?? Math.floor(Math.random() * 2 ** 32))
const WORKERS = 20
const EVENTS_PER_SECOND = 500
/** Lives of one process of the Runtime are numbered from a multiple of it. */
const LIVES = 1_000
/** A worker whose connections failed again and again is tried after half a minute at the latest. */
const SETTLE_MS = 90_000

const idOf = (n: number): string =>
  GENERATION === 'events-ws' ? String(n) : `01980000-0000-7000-8000-${String(n).padStart(12, '0')}`
const WORKER_IDS = Array.from({ length: WORKERS }, (_, i) => idOf(i + 1))

/** Random times and choices of one kind of fault, the same for the same seed. */
function dice(seed: number) {
  const random = seededRandom(seed)
  const between = (least: number, most: number): number => Math.floor(least + random() * (most - least))
  return {
    between,
    chance: (probability: number): boolean => random() < probability,
    oneOf: <T>(list: readonly T[]): T => list[between(0, list.length)] as T,
    after: (least: number, most: number): Promise<void> =>
      new Promise(resolve => setTimeout(resolve, between(least, most))),
  }
}
type Dice = ReturnType<typeof dice>

const useDirectory = (): Disposable & { readonly path: string } => {
  const path = mkdtempSync(join(tmpdir(), 'shoji-chaos-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** The Runtime's process, whichever it is now, and how far its workers came in the lives that it told the end of. */
async function startRuntime(seed: number) {
  const ended = new Map(WORKER_IDS.map(id => [id, new Map<number, number>()]))
  const start = (process: number): Promise<ChaosProcess> =>
    startChaosProcess({
      generation: GENERATION,
      workerIds: WORKER_IDS,
      eventsPerSecond: EVENTS_PER_SECOND,
      life: process * LIVES,
      seed: seed + process,
    })
  let processes = 0
  let eventsPerSecond = 0
  const runtime = {
    ended,
    process: await start(++processes),
    get eventsPerSecond() {
      return eventsPerSecond
    },
    async kill(downMs: number): Promise<void> {
      await runtime.process.kill()
      await new Promise(resolve => setTimeout(resolve, downMs))
      runtime.process = await start(++processes)
    },
    async restart(keepStore: boolean, downMs: number): Promise<void> {
      const { reached } = await runtime.process.tell({ do: 'restart', keepStore, downMs })
      if (keepStore)
        for (const [id, { life, next }] of Object.entries(reached)) ended.get(id)?.set(life, next)
    },
    async finish(): Promise<Readonly<Record<string, Reached>>> {
      const last = await runtime.process.tell({ do: 'finish' })
      eventsPerSecond = last.eventsPerSecond
      return last.reached
    },
  }
  return runtime
}

it(`${SECONDS} seconds of kills, cuts and stalls at ${EVENTS_PER_SECOND} events a second: 0 lost, 0 doubled, 0 misordered, every gap announced`, {
  timeout: SECONDS * 3_000 + SETTLE_MS + 120_000,
}, async () => {
  using directory = useDirectory()
  using server = copyServer()
  const runtime = await startRuntime(SEED)
  await using upstream = await startCuttingProxy(runtime.process.url)
  writeShojiFiles({ runtimes: [{ id: 'rt', url: upstream.url }], directory: directory.path })
  const config = join(directory.path, 'shoji.yaml')
  let shoji = await startServerProcess(server.main, config)
  await using network = await startCuttingProxy(shoji.url)
  const first = WORKER_IDS[0]!
  const asked = [
    { user: 'admin', selection: { kind: 'runtime', runtime: 'rt' } },
    { user: 'guest', selection: { kind: 'runtime', runtime: 'rt' } },
    { user: 'admin', selection: { kind: 'worker', runtime: 'rt', worker: first } },
  ] as const
  const listeners = asked.map(
    ({ user, selection }) =>
      new Listener(
        user,
        () =>
          `${network.url}/api/runtimes/rt/${selection.kind === 'worker' ? `workers/${first}/` : ''}events`,
      ),
  )

  const closing: (() => void)[] = []
  const faults: Record<string, number> = {}
  const count = (name: string, times = 1): void => {
    faults[name] = (faults[name] ?? 0) + times
  }
  try {
    await eventually(() => listeners.every(l => l.frames.length > 100), 'the load arrives')
    const until = Date.now() + SECONDS * 1_000
    const repeat = async (
      random: Dice,
      [least, most]: readonly [number, number],
      act: () => Promise<void> | void,
    ): Promise<void> => {
      for (;;) {
        await random.after(least, most)
        if (Date.now() >= until) return
        await act()
      }
    }

    const ofShoji = dice(SEED + 101)
    const killShoji = async (): Promise<void> => {
      expect(await shoji.end('SIGKILL')).toBe(null)
      count('kill -9 of the server')
      if (ofShoji.chance(0.4)) await ofShoji.after(0, 3_000)
      shoji = await startServerProcess(server.main, config)
      network.lead(shoji.url)
    }

    const ofRuntime = dice(SEED + 102)
    const killRuntime = async (): Promise<void> => {
      const downMs = ofRuntime.chance(0.5) ? 0 : ofRuntime.between(0, 1_500)
      const kind = ofRuntime.oneOf(['kill', 'kill', 'keep', 'keep', 'empty'] as const)
      if (kind === 'kill') await runtime.kill(downMs)
      else await runtime.restart(kind === 'keep', downMs)
      count(
        {
          kill: 'kill -9 of the Runtime',
          keep: 'Runtime restarted with its store',
          empty: 'Runtime restarted without its store',
        }[kind],
      )
      upstream.lead(runtime.process.url)
    }

    const ofUpstream = dice(SEED + 103)
    /** Some connections, often one alone, seldom all of them. */
    const some = (random: Dice) => {
      const share = random.oneOf([0.05, 0.05, 0.2, 1])
      return () => random.chance(share)
    }
    const disturbUpstream = async (): Promise<void> => {
      const kind = ofUpstream.oneOf(['cut', 'stall', 'stall', 'socket', 'evict'] as const)
      const worker = ofUpstream.oneOf(WORKER_IDS)
      // A Runtime that is being killed does not answer.
      const tell: ChaosProcess['tell'] = command => runtime.process.tell(command)
      if (kind === 'cut') count('connections to the Runtime cut', upstream.cut(some(ofUpstream)))
      else if (kind === 'stall') {
        count('connections to the Runtime stalled', upstream.stall(some(ofUpstream)))
        await ofUpstream.after(50, 2_500)
        if (ofUpstream.chance(0.7)) upstream.unstall()
        else count('connections to the Runtime cut', upstream.cut(some(ofUpstream)))
        upstream.unstall()
      } else if (kind === 'socket') {
        const stalled = await tell({ do: 'stall', worker, forMs: ofUpstream.between(50, 2_000) }).catch(
          () => null,
        )
        if (stalled !== null) count('sockets that the Runtime stopped writing')
      } else {
        const evicted = await tell({ do: 'evict', worker, keep: ofUpstream.between(0, 6) }).catch(() => null)
        if (evicted !== null) count('backlogs evicted')
      }
    }

    const ofViewers = dice(SEED + 104)
    const disturbViewers = async (): Promise<void> => {
      if (ofViewers.chance(0.7))
        count(
          'viewers cut',
          network.cut(() => ofViewers.chance(0.5)),
        )
      else {
        count(
          'viewers stalled',
          network.stall(() => ofViewers.chance(0.5)),
        )
        await ofViewers.after(50, 1_500)
        network.unstall()
      }
    }

    await Promise.all([
      repeat(ofShoji, [1_500, 6_000], killShoji),
      repeat(ofRuntime, [1_500, 6_000], killRuntime),
      repeat(ofUpstream, [100, 1_500], disturbUpstream),
      repeat(ofViewers, [100, 1_500], disturbViewers),
    ])

    const last = await runtime.finish()
    const heard = (frames: readonly Frame[], worker: string): boolean => {
      const { life, next } = last[worker]!
      const number = `#${life}.${next - 1};`
      return frames.some(
        f => 'worker' in f.data && f.data.worker === worker && JSON.stringify(f.data).includes(number),
      )
    }
    await eventually(
      () =>
        listeners.every((listener, i) =>
          (asked[i]!.selection.kind === 'worker' ? [first] : WORKER_IDS).every(worker =>
            heard(listener.frames.slice(-1_000), worker),
          ),
        ),
      `seed ${SEED}: the end arrives`,
      SETTLE_MS,
    )
    const journal = openJournalReadOnly(join(directory.path, 'data'))
    closing.push(() => journal.close())
    const told = { ended: runtime.ended, last }
    await eventually(
      async () => (await account(journal, told)).unhealed.length === 0,
      `seed ${SEED}: what stood twice is put right`,
    )
    // On the screen of who comes now each number of the newest life stands once, up to the last.
    using fresh = await TestStream.open(`${shoji.url}/api/runtimes/rt/events`, { token: TOKENS.admin })
    await fresh.untilLive()
    for (const id of WORKER_IDS) {
      const { life, next } = last[id]!
      const screen = JSON.stringify(fresh.state.workers[`rt/${id}`]?.state.items ?? [])
      const shown = numbersIn(screen).flatMap(n => (n.life === life ? [n.next] : []))
      expect(unevenIn(screen, life), `seed ${SEED}: worker ${id}`).toEqual([])
      expect(shown, `seed ${SEED}: worker ${id}`).toContain(next)
    }
    fresh.cut()

    expect(await shoji.end('SIGTERM')).toBe(0)
    for (const listener of listeners) await listener.stop()
    const { policy } = await loadPolicyFile(join(directory.path, 'policy.yaml'))
    const verdicts = await Promise.all(
      listeners.map((listener, i) => judge(journal, listener.frames, { ...asked[i]!, policy })),
    )
    const sum = await account(journal, told)
    const all = Object.values(faults).reduce((a, b) => a + b, 0)
    const connects = listeners.map(l => l.connects)
    process.stdout.write(
      `${JSON.stringify({ seed: SEED, generation: GENERATION, seconds: SECONDS, eventsPerSecond: runtime.eventsPerSecond, faults, all, connects, verdicts, sum }, null, 1)}\n`,
    )
    for (const verdict of verdicts) {
      expect(verdict, `seed ${SEED}`).toMatchObject({ lost: 0, doubled: 0, misordered: 0, altered: 0 })
      expect(Object.keys(verdict.outcomes), `seed ${SEED}`).toEqual(['resumed'])
    }
    expect(sum.unannounced, `seed ${SEED}`).toEqual([])
    expect(sum.missing, `seed ${SEED}`).toEqual([])
    expect(sum.unexplained, `seed ${SEED}`).toEqual([])
    expect(sum.numbers).toBeGreaterThan(SECONDS * 20)
    expect(all).toBeGreaterThan(SECONDS / 2)
  } finally {
    for (const listener of listeners) await listener.stop()
    for (const close of closing) close()
    await runtime.process.kill()
    await shoji.end('SIGKILL')
  }
})
