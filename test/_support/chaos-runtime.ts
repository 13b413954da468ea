/**
 * A Runtime as a process of its own that talks without end: turns of every worker, so many events a second in
 * all, each telling event with a number. Numbers of a worker count up without a hole within one life of the
 * Runtime, and each life begins, before anyone can connect, with its number 0: so the newest number in a
 * snapshot names the life it was taken in and what must come next.
 *
 * The last argument is a `ChaosConfig`. It speaks over IPC: `ChaosCommand` in, `ChaosAnswer` out.
 */
import type { Generation, RuntimeEvent } from '../../src/embedded-runtime/events.ts'
import { status, usage } from '../../src/embedded-runtime/events.ts'
import { misbehave } from '../../src/embedded-runtime/misbehave.ts'
import { EmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'
import { seededRandom } from './with-delays.ts'

export interface ChaosConfig {
  readonly generation: Generation
  readonly workerIds: readonly string[]
  readonly eventsPerSecond: number
  /** Larger than any life of the processes before it. */
  readonly life: number
  readonly seed: number
}

/** How far a worker's numbers came in a life: `next` is the one that was not given. */
export interface Reached {
  readonly life: number
  readonly next: number
}

export type ChaosCommand =
  | { readonly do: 'restart'; readonly keepStore: boolean; readonly downMs: number }
  | { readonly do: 'stall'; readonly worker: string; readonly forMs: number }
  | { readonly do: 'evict'; readonly worker: string; readonly keep: number }
  /** Every worker ends its turn, says one more number, and rests. */
  | { readonly do: 'finish' }

export interface ChaosAnswer {
  readonly url: string
  /** How far each worker had come when the command was done; at a restart, when the life before it ended. */
  readonly reached: Readonly<Record<string, Reached>>
  /** Events of this process, and how many of them a second while it was up. */
  readonly published: number
  readonly eventsPerSecond: number
}

const config = JSON.parse(process.argv.at(-1) ?? '{}') as ChaosConfig
const random = seededRandom(config.seed)
const below = (limit: number): number => Math.floor(random() * limit)

const runtime = new EmbeddedRuntime({ generation: config.generation, store: 'memory-store' })
const wrong = misbehave(runtime)
let life = config.life
let published = 0
let down = true
let finishing = false

interface Talker {
  readonly worker: EmbeddedWorker
  next: number
  turn: Generator<RuntimeEvent, void, undefined> | null
  restsUntil: number
  over: boolean
}
let talkers = new Map<string, Talker>()

const say = (talker: Talker, event: RuntimeEvent): void => {
  talker.worker.emit(event)
  published += 1
}

const numbered = (talker: Talker): string => `#${life}.${talker.next++};`

const message = (text: string): RuntimeEvent => ({
  event: 'user_message',
  data: { segments: [{ kind: 'text', content: text }] },
})

function* opening(talker: Talker): Generator<RuntimeEvent, void, undefined> {
  const later = config.generation === 'protocol-ws'
  if (later) yield { event: 'invoke_start', data: { kind: 'user_send' } }
  const said = message(numbered(talker))
  yield said
  yield status('running')
  // As echo and from the log (R47).
  if (later) yield said
}

function* block(talker: Talker, kind: 'text' | 'thinking', pieces: number) {
  if (kind === 'thinking') yield { event: 'thinking_start' }
  let whole = ''
  for (let n = 0; n < pieces; n++) {
    const text = `${numbered(talker)}${'x'.repeat(below(40))} `
    whole += text
    yield { event: `${kind}_delta`, data: { text } }
  }
  yield { event: `${kind}_done`, data: { text: whole } }
}

function* turnOf(talker: Talker): Generator<RuntimeEvent, void, undefined> {
  yield* opening(talker)
  const { worker } = talker
  const turn = worker.turns
  const llm_call = worker.llmCalls
  yield { event: 'turn_start', data: { turn } }
  yield { event: 'llm_call_start', data: { llm_call } }
  if (random() < 0.4) yield* block(talker, 'thinking', 1 + below(6))
  yield* block(talker, 'text', 1 + below(40))
  const id = random() < 0.3 ? `toolu_${life}_${talker.next}` : null
  if (id !== null) {
    yield { event: 'tool_call_start', data: { id, name: 'Bash' } }
    yield { event: 'tool_call_args_delta', data: { id, json: '{"command":' } }
    yield { event: 'tool_call_args_delta', data: { id, json: '"ls"}' } }
    yield { event: 'tool_call_done', data: { id, name: 'Bash', arguments: '{"command":"ls"}' } }
  }
  yield usage(1200, 42)
  yield { event: 'llm_call_end', data: { llm_call } }
  yield { event: 'turn_end', data: { turn, result: 'finished' } }
  if (id !== null)
    yield {
      event: 'tool_result',
      data: { id, summary: 'listed', output: numbered(talker), is_error: false },
    }
  yield { event: 'run_end', data: { result: 'finished' } }
  yield status('idle')
}

const reached = (): Record<string, Reached> =>
  Object.fromEntries([...talkers].map(([id, { next }]) => [id, { life, next }]))

/** Every worker begins a life: its number 0 stands in all that a connection can be shown. */
function begin(): void {
  talkers = new Map(
    config.workerIds.map(id => {
      const worker = runtime.workers.get(id) ?? runtime.addWorker({ workerId: id })
      const talker: Talker = { worker, next: 0, turn: null, restsUntil: 0, over: false }
      talker.turn = turnOf(talker)
      while (talker.next === 0) {
        const { value } = talker.turn.next()
        if (value !== undefined) say(talker, value)
      }
      return [id, talker]
    }),
  )
}

function step(talker: Talker, now: number): void {
  const next = talker.turn?.next()
  if (next?.value !== undefined) {
    say(talker, next.value)
    return
  }
  if (talker.turn !== null) {
    talker.turn = null
    talker.restsUntil = now + (random() < 0.2 ? 2_500 + below(1_500) : 50 + below(450))
  }
  if (finishing) {
    say(talker, message(numbered(talker)))
    talker.over = true
  } else if (now >= talker.restsUntil) talker.turn = turnOf(talker)
}

const TICK_MS = 5
/** What a late tick makes up for; the rest is not said. */
const MOST_MS = 100
let saidUpTo = performance.now()
let upMs = 0
let lastTick = saidUpTo

function tick(): void {
  const now = performance.now()
  saidUpTo = Math.max(saidUpTo, now - MOST_MS)
  if (!down) upMs += now - lastTick
  lastTick = now
  if (down) return
  const spacing = 1_000 / config.eventsPerSecond
  for (; saidUpTo + spacing <= now; saidUpTo += spacing) {
    const able = [...talkers.values()].filter(
      t => !t.over && (t.turn !== null || finishing || now >= t.restsUntil),
    )
    const talker = able[below(able.length)]
    if (talker !== undefined) step(talker, now)
  }
}

const answer = (of = reached()): void => {
  const said: ChaosAnswer = {
    url: runtime.url,
    reached: of,
    published,
    eventsPerSecond: Math.round((published * 1_000) / Math.max(1, upMs)),
  }
  process.send?.(said)
}

async function obey(command: ChaosCommand): Promise<void> {
  if (command.do === 'stall') {
    wrong.stall(command.worker)
    setTimeout(() => wrong.unstall(command.worker), command.forMs)
  } else if (command.do === 'evict') wrong.evict(command.worker, command.keep)
  else if (command.do === 'restart') {
    const before = reached()
    down = true
    await runtime.restart({
      keepStore: command.keepStore,
      async whileDown() {
        life += 1
        begin()
        await new Promise(resolve => setTimeout(resolve, command.downMs))
      },
    })
    down = false
    answer(before)
    return
  } else {
    finishing = true
    while ([...talkers.values()].some(t => !t.over))
      await new Promise(resolve => setTimeout(resolve, TICK_MS))
  }
  answer()
}

process.on('message', message => {
  void obey(message as ChaosCommand)
})
process.once('disconnect', () => process.exit(0))
begin()
await runtime.listen()
down = false
setInterval(tick, TICK_MS)
answer()
