import type { Frame } from '@shoji/web-contract'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { formatCursor } from '../../src/embedded-runtime/cursor.ts'
import { EmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'
import type { SourceSink } from '../../src/sources/source.ts'
import { Line } from './_continuity-line.ts'
import { type Fault, LAST_RUN, type Script, script, stepsOf, Teller } from './_continuity-script.ts'
import { logged, seen, unfinished, walk } from './_continuity-truth.ts'
import { audienceOf, framesOf, openWorld, reduceAll, runs, viewOf, type World } from './_world.ts'

/**
 * A random Runtime against an oracle that knows its log. Real Runtime, source and journal without sockets, in a
 * time of its own: a script says what happens step by step, and after its last step everything comes to rest.
 */
const SEED = Date.now() & 0x7fffffff
let world: World
let scripts = 0

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: 1_750_000_000_000 })
  world = await openWorld()
})
afterAll(async () => {
  await settled(world.close())
  vi.useRealTimers()
})

/** Lets time pass until something has happened that needs it. */
async function settled<T>(what: Promise<T>): Promise<T> {
  let pending = true
  const over = () => {
    pending = false
  }
  what.then(over, over)
  while (pending) {
    vi.advanceTimersByTime(5)
    await new Promise(resolve => setImmediate(resolve))
  }
  return what
}

const sinkOf = ({ ingest }: World): SourceSink => ({
  open: (ref, profile) => settled(ingest.open(ref, profile)),
  profileChanged: async () => {},
  queuedBytes: 0,
  maxQueuedBytes: 1,
  relieved: async () => {},
  status: () => {},
})

interface Emitted {
  readonly position: number
  readonly event: string
}

/** How many of the last events may come again behind a fresh snapshot: of a text in flight, or results (R21, R62). */
function mayComeAgain(emitted: readonly Emitted[], { log }: EmbeddedWorker): number {
  const last = emitted.at(-1)?.event ?? ''
  if (last === 'tool_result') return emitted.length - 1 - emitted.findLastIndex(({ event }) => event !== last)
  const [kind] = last.split('_')
  if (!log.inCall || (kind !== 'text' && kind !== 'thinking')) return 0
  const before = last.endsWith('_done') ? emitted.slice(0, -1) : emitted
  return emitted.length - 1 - before.findLastIndex(({ event }) => event !== `${kind}_delta`)
}

interface Lived {
  readonly frames: readonly Frame[]
  readonly line: Line
  readonly runtime: EmbeddedRuntime
  readonly teller: Teller
  readonly name: string
  /** Texts and thoughts of the model as far as they were said. */
  readonly texts: readonly string[]
  readonly emitted: readonly Emitted[]
  /** A run that was going on died with its Runtime. */
  readonly died: boolean
}

async function live(what: Script): Promise<Lived> {
  const { generation, faults, join, fences } = what
  const name = `rt${scripts++}`
  const runtime = new EmbeddedRuntime({ generation, store: 'memory-store', now: Date.now })
  let worker = runtime.addWorker()
  const teller = new Teller(worker)
  const emitted: Emitted[] = []
  const texts: string[] = []
  let last = ''
  let armed = true
  const watch = (): void => {
    const emit = worker.emit.bind(worker)
    worker.emit = event => {
      if (event.event === 'text_delta' || event.event === 'thinking_delta') {
        const before = last === event.event ? (texts.pop() ?? '') : ''
        texts.push(before + event.data?.text)
      }
      last = event.event
      const position = emit(event)
      if (position !== undefined) emitted.push({ position, event: event.event })
      return position
    }
  }
  watch()
  let lives = 0
  let evictLater: number | null = null
  const evict = (keep: number): void => {
    line.evicted = true
    runtime.log.evict(worker.id, keep)
  }
  const line = new Line(runtime, () => worker, sinkOf(world), {
    name,
    now: Date.now,
    fences,
    ahead: () => Math.min(what.ahead, mayComeAgain(emitted, worker)),
    life: () => lives,
    returning: () => {
      if (evictLater !== null) evict(evictLater)
      evictLater = null
    },
    lost: (from, known) => lostOf(emitted, from, known).length > 0,
  })
  const steps = stepsOf(what, `${name}-`)
  const joinAt = Math.floor(join * steps.length)
  const due = faults.map(({ at, fault }) => ({ at: Math.floor(at * (steps.length + 1)), fault }))
  let joined = false
  let abandoned = -1
  let died = false

  async function happen(fault: Fault, run: number): Promise<void> {
    switch (fault.kind) {
      case 'cut':
        return line.cut(fault.away)
      case 'lag':
        return line.lag(fault.steps)
      case 'evict':
        if ((fault.away ?? 0) % 2 === 1) evictLater = fault.keep
        else evict(fault.keep)
        if (fault.away !== null) line.cut(fault.away)
        return
      case 'lose':
        return worker.misfate('lose', fault.count, ({ event }) => armed && mayBeLost(what, fault, event))
      case 'double':
        line.doubles = fault.count
        return
      case 'restart': {
        if (worker.activity === 'running') {
          died = true
          abandoned = run
          teller.failed()
        } else if (worker.activity === 'paused') abandoned = run
        line.cut(fault.away)
        await runtime.restart({ keepStore: fault.store })
        await runtime.close()
        if (fault.store) return
        lives += 1
        emitted.length = 0
        worker = runtime.addWorker({ workerId: worker.id })
        teller.worker = worker
        watch()
        abandoned = run
        return
      }
      case 'wait':
        return pass(fault.ms)
    }
  }

  async function pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 500) {
      vi.advanceTimersByTime(Math.min(500, left))
      if (joined) await line.tick()
    }
  }

  for (let at = 0; at <= steps.length; at++) {
    if (!joined && at >= joinAt) {
      await line.begin()
      joined = true
    }
    const step = steps[at]
    for (const { fault } of due.filter(d => d.at === at)) await happen(fault, step?.run ?? -1)
    if (step !== undefined && step.run !== abandoned) step.act(teller)
    if (joined) await line.tick()
    vi.advanceTimersByTime(1)
  }
  armed = false
  if (needsAnotherRun(what)) {
    for (let i = 0; i < 8; i++) await line.tick()
    for (const step of stepsOf({ ...what, said: [LAST_RUN] }, `${name}-last-`)) {
      step.act(teller)
      await line.tick()
    }
  }
  // Backoff, rest, resync and the wait for a mismatch, one after another and again.
  for (let i = 0; i < 24; i++) await pass(1_000)
  expect(line.quiet).toBe(true)
  await settled(world.journal.durable(world.ingest.position))
  const record = world.ingest.find(name, worker.id)!
  const entries = []
  for (let after = 0 as never; ; ) {
    const page = await world.journal.readAfter([record.id], after, { maxRows: 1_000, maxBytes: 8_000_000 })
    entries.push(...page.entries)
    after = page.through as never
    if (page.atHead) break
  }
  const frames = (await framesOf(world, audienceOf(world, record, viewOf('show')), entries)).flat()
  return { frames, line, runtime, teller, name, texts, emitted, died }
}

/** Later Runtimes lose nothing that is known, and are asked again only after a sign: so what is lost leaves one. */
const mayBeLost = (
  { generation, said }: Script,
  { count }: { readonly count: number },
  event: string,
): boolean => {
  if (generation === 'events-ws') return true
  const well = said.every(one => one.kind === 'quiet' || one.calls.every(({ end }) => end === 'well'))
  return well && count % 2 === 0 ? event === 'text_done' || event === 'tool_result' : event === 'text_delta'
}

const has = ({ faults }: Script, match: (fault: Fault) => boolean): boolean =>
  faults.some(({ fault }) => match(fault))

/** Logged without a word, or lost on the way: the next rest shows it. */
const needsAnotherRun = (what: Script): boolean =>
  has(what, ({ kind }) => kind === 'lose' || kind === 'evict') ||
  what.said.some(one => one.kind === 'quiet' && one.what === 'notification')

const TELLS_NOTHING = new Set(['alert', 'error', 'usage', 'status'])

/** Events after a list began that are not known and would tell something. */
const lostOf = (emitted: readonly Emitted[], from: number, known: ReadonlySet<string>): readonly Emitted[] =>
  emitted.filter(
    ({ position, event }) =>
      position > from && !known.has(formatCursor(position)) && !TELLS_NOTHING.has(event),
  )

function judge(what: Script, { frames, line, runtime, teller, name, texts, emitted, died }: Lived): void {
  const { worker } = teller
  const state = reduceAll(frames).workers[`${name}/${worker.id}`]!.state
  const resets = frames.flatMap(f => (f.event === 'reset' ? [f.data.reason] : []))
  const snapshot = JSON.parse(worker.snapshotData())
  const ours = seen(state, frames, teller.loose)
  const theirs = logged(snapshot.entries)
  expect({ ...ours, system: [] }).toEqual({ ...theirs, system: [] })
  expect(theirs.system.filter(s => !ours.system.includes(s))).toEqual([])
  expect(new Set(state.items.map(({ id }) => id)).size).toBe(state.items.length)
  expect(state.status).toBe(snapshot.status)
  expect(state.open).toEqual({ blocks: [], calls: [] })
  const { twice, stray } = walk(frames, `${name}/${worker.id}`, texts)
  expect(twice).toEqual([])
  const whole = what.distinct && line.stale === 0 && !has(what, ({ kind }) => kind === 'lose')
  if (whole) expect(stray).toEqual([])
  if (whole)
    expect(unfinished(state, frames).filter(text => !texts.some(said => said.startsWith(text)))).toEqual([])
  // Every list but the first is announced.
  expect(resets.length).toBeGreaterThanOrEqual(line.begun - 1)
  // No resume is proven that is none, and what is passed over is announced.
  expect(line.lies).toEqual([])
  if (runtime.generation === 'events-ws') expect(lostOf(emitted, line.begunAt, line.accepted)).toEqual([])
  const notes = what.said.some(one => one.kind === 'quiet' && one.what === 'notification')
  const ordinary =
    !(line.evicted && notes) &&
    !died &&
    line.bare + line.unclear === 0 &&
    !has(what, ({ kind }) => kind === 'lose' || kind === 'restart') &&
    (what.generation === 'events-ws' || !has(what, ({ kind }) => kind === 'cut'))
  if (ordinary) expect(resets).toEqual([])
}

const count = (ci: number): { numRuns: number; seed: number } => {
  const { numRuns, seed = SEED } = runs(ci)
  return { numRuns: Number(process.env.LAW_RUNS ?? numRuns), seed }
}

const A_CALL = { kind: 'call', args: '{}', output: 'out', bad: false } as const
const THREE_CALLS = { parts: [A_CALL, A_CALL, A_CALL], end: 'well' } as const

const always = (what: fc.Arbitrary<Script>) =>
  fc.asyncProperty(what, async one => judge(one, await live(one)))

it('ends with what the Runtime says, whatever happened on the way', async () => {
  const at = count(300)
  process.stdout.write(`seed ${at.seed}\n`)
  await fc.assert(always(script({ cut: 5, lag: 2, evict: 3, lose: 2, double: 1, restart: 2, wait: 2 })), at)
})

it('tells nothing twice behind snapshots that are ahead of their stream', async () => {
  const at = count(150)
  process.stdout.write(`seed ${at.seed}\n`)
  const cuts = script({ cut: 1 }, 6)
  const ahead = cuts.map(
    (one): Script => ({
      ...one,
      generation: 'protocol-ws',
      ahead: 20,
      distinct: true,
      said: one.said.map(it => (it.kind === 'run' ? { ...it, calls: [THREE_CALLS, ...it.calls] } : it)),
    }),
  )
  await fc.assert(always(ahead), at)
})
