/**
 * The server's process killed with SIGKILL under load, again and again. Kills: `SHOJI_KILLS`, default 12.
 * What happened to the Runtime while no server was there is told by a reset at each start; what is promised
 * is that everything that ever stood in the journal reaches every viewer who may see it, once and in order.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { misbehave, unavailable } from '../../src/embedded-runtime/misbehave.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'
import { openJournalReadOnly } from '../../src/journal/sqlite/read-only.ts'
import { loadPolicyFile } from '../../src/projection/policy/file.ts'
import { delta, done, eventually, outcomeOf, said, saw, startRoomyRuntime, tell } from '../_support/flow.ts'
import { judge, Listener } from '../_support/listener.ts'
import { copyServer, startServerProcess } from '../_support/server-process.ts'
import { TOKENS, writeShojiFiles } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'
import { seededRandom } from '../_support/with-delays.ts'

const KILLS = Number(process.env.SHOJI_KILLS ?? 12)

const useDirectory = (): Disposable & { readonly path: string } => {
  const path = mkdtempSync(join(tmpdir(), 'shoji-kill-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** One turn after another until it is stopped: texts in pieces, calls, usage, messages, of random sizes. */
function startLoad(
  workers: readonly EmbeddedWorker[],
  random: () => number,
): Disposable & { readonly told: number } {
  let told = 0
  const timer = setInterval(() => {
    const worker = workers[Math.floor(random() * workers.length)]!
    const n = ++told
    const kind = random()
    if (kind < 0.5) for (let i = 0; i < 3; i++) delta(worker, `${n}.${i} `)
    else if (kind < 0.6) done(worker, `text ${n}`)
    else if (kind < 0.7) worker.emit({ event: 'thinking_delta', data: { text: `${n} ` } })
    else if (kind < 0.75) worker.emit({ event: 'tool_call_start', data: { id: `call_${n}`, name: 'Bash' } })
    else if (kind < 0.85) worker.emit({ event: 'usage', data: { input_tokens: n, output_tokens: 1 } })
    else if (kind < 0.9) worker.emit({ event: 'run_end', data: { result: 'finished' } })
    else tell(worker, `message ${n} ${'x'.repeat(Math.floor(random() * 400))}`)
  }, 1)
  return {
    get told() {
      return told
    },
    [Symbol.dispose]: () => clearInterval(timer),
  }
}

it(`case 4: killed ${KILLS} times under load, three viewers who resume by id alone lose nothing and get nothing twice`, {
  timeout: 60_000 + KILLS * 20_000,
}, async () => {
  const seed = Math.floor(Math.random() * 2 ** 32)
  const random = seededRandom(seed)
  using directory = useDirectory()
  using server = copyServer()
  await using runtime = await startRoomyRuntime()
  const workers = [runtime.addWorker({ log: 'off' }), runtime.addWorker({ log: 'off' })]
  writeShojiFiles({ runtimes: [{ id: 'rt', url: runtime.url }], directory: directory.path })
  const config = join(directory.path, 'shoji.yaml')
  let current = await startServerProcess(server.main, config)
  const first = workers[0]!.id
  const asked = [
    { user: 'admin', selection: { kind: 'runtime', runtime: 'rt' } },
    { user: 'guest', selection: { kind: 'runtime', runtime: 'rt' } },
    { user: 'admin', selection: { kind: 'worker', runtime: 'rt', worker: first } },
  ] as const
  const listeners = asked.map(
    ({ user, selection }) =>
      new Listener(user, () =>
        selection.kind === 'worker'
          ? `${current.url}/api/runtimes/rt/workers/${first}/events`
          : `${current.url}/api/runtimes/rt/events`,
      ),
  )
  const counts = (): number[] => listeners.map(listener => listener.frames.length)
  try {
    const load = startLoad(workers, random)
    await eventually(() => counts().every(n => n > 50), 'the load arrives')
    for (let kill = 0; kill < KILLS; kill++) {
      const before = counts()
      // From at once, in the middle of a start, to some hundred frames later.
      const frames = random() < 0.2 ? 0 : Math.floor(random() * 300)
      await eventually(
        () => counts().every((n, i) => n >= before[i]! + frames),
        `seed ${seed}: ${frames} frames after kill ${kill}`,
      )
      expect(await current.end('SIGKILL')).toBe(null)
      current = await startServerProcess(server.main, config)
    }
    load[Symbol.dispose]()
    // Until both workers are heard again, and then one last word of each: nothing is under way behind it.
    const heard = (text: string) => () =>
      listeners.every((listener, i) =>
        (asked[i]!.selection.kind === 'worker' ? [first] : workers.map(w => w.id)).every(worker =>
          listener.frames
            .slice(-500)
            .some(f => f.event === 'envelope' && f.data.worker === worker && said([f])[0] === text),
        ),
      )
    await eventually(() => {
      for (const worker of workers) tell(worker, 'nearly')
      return heard('nearly')()
    }, `seed ${seed}: the workers are heard`)
    for (const worker of workers) tell(worker, 'the end')
    await eventually(heard('the end'), `seed ${seed}: the end arrives`)
    expect(await current.end('SIGTERM')).toBe(0)
    for (const listener of listeners) await listener.stop()
    const { policy } = await loadPolicyFile(join(directory.path, 'policy.yaml'))
    const journal = openJournalReadOnly(join(directory.path, 'data'))
    const verdicts = await Promise.all(
      listeners.map((listener, i) => judge(journal, listener.frames, { ...asked[i]!, policy })),
    )
    journal.close()
    process.stdout.write(`${JSON.stringify({ seed, kills: KILLS, told: load.told, verdicts })}\n`)
    for (const [i, verdict] of verdicts.entries()) {
      expect(verdict, `seed ${seed}`).toMatchObject({ lost: 0, doubled: 0, misordered: 0, altered: 0 })
      expect(verdict.entries).toBeGreaterThan(KILLS * 20)
      expect(Object.keys(verdict.outcomes), `seed ${seed}`).toEqual(['resumed'])
      expect(listeners[i]!.connects).toBeGreaterThan(KILLS / 2)
    }
  } finally {
    for (const listener of listeners) await listener.stop()
    await current.end('SIGKILL')
  }
})

it('case 4: killed and started again, a resume before anything new is published brings what was missed', async () => {
  using directory = useDirectory()
  using server = copyServer()
  await using runtime = await startRoomyRuntime()
  const worker = runtime.addWorker({ log: 'off' })
  writeShojiFiles({ runtimes: [{ id: 'rt', url: runtime.url }], directory: directory.path })
  const config = join(directory.path, 'shoji.yaml')
  let current = await startServerProcess(server.main, config)
  const open = (lastEventId?: string, state?: TestStream['state']): Promise<TestStream> =>
    TestStream.open(
      `${current.url}/api/runtimes/rt/workers/${worker.id}/events`,
      { token: TOKENS.admin, ...(lastEventId !== undefined && { lastEventId }) },
      state && { ...state, live: false },
    )
  try {
    await eventually(async () => {
      const stream = await open().catch(() => null)
      stream?.cut()
      return stream !== null
    }, 'the worker is known')
    const viewer = await open()
    await viewer.until(s => s.frames.some(f => f.event === 'snapshot') && s.state.live, 'live')
    tell(worker, 'seen')
    await viewer.until(saw(worker, 'seen'), 'the first')
    viewer.cut()
    using witness = await open()
    await witness.untilLive()
    for (let n = 0; n < 20; n++) tell(worker, `missed ${n}`)
    await witness.until(saw(worker, 'missed 19'), 'it is stored')
    misbehave(runtime).refuseUpgrades(unavailable, Number.POSITIVE_INFINITY)
    await current.end('SIGKILL')
    current = await startServerProcess(server.main, config)
    using resumed = await open(viewer.position!, viewer.state)
    await resumed.untilLive()
    expect(outcomeOf(resumed)).toBe('resumed')
    expect(said(resumed.frames)).toEqual(Array.from({ length: 20 }, (_, n) => `missed ${n}`))
    // The idle position from before the kill is good as well, and brings nothing.
    using idle = await open(witness.position!, witness.state)
    await idle.untilLive()
    expect([outcomeOf(idle), said(idle.frames)]).toEqual(['resumed', []])
  } finally {
    await current.end('SIGKILL')
  }
})
