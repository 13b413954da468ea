import fc from 'fast-check'
import type { Generation, RuntimeEvent } from '../../src/embedded-runtime/events.ts'
import { notification } from '../../src/embedded-runtime/fold.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'
import { interruptItem, segmentStart } from '../../src/embedded-runtime/worker-log.ts'

/**
 * Random lives of a worker: what it says, in the order in which a real one says it (R23, R26, R27, R47), and what
 * goes wrong on the way.
 */
type Part =
  | { readonly kind: 'text' | 'thinking'; readonly pieces: readonly string[] }
  | {
      readonly kind: 'call'
      readonly args: string
      readonly output: string | undefined
      readonly bad: boolean
    }

/**
 * How a model call ends. `cut`: its stream broke and the call goes on (R27). `late`: it ends well and the run
 * fails then; `error` and `cancel` in the middle of it; `tools`: cancelled while its tools run.
 */
type CallEnd = 'well' | 'cut' | 'error' | 'cancel' | 'pause' | 'late' | 'tools'

interface Run {
  readonly kind: 'run'
  readonly by: 'user' | 'system'
  readonly input: string
  /** Later Runtimes say an input twice: this many events before the second (R47). */
  readonly echoAfter: number
  readonly calls: readonly { readonly parts: readonly Part[]; readonly end: CallEnd }[]
}

interface Quiet {
  readonly kind: 'quiet'
  readonly what: 'notification' | 'alert' | 'error'
}

export type Fault =
  | { readonly kind: 'cut'; readonly away: number }
  /** Frames stay on the way for so many steps. */
  | { readonly kind: 'lag'; readonly steps: number }
  /** With the connection, where `away` says for how long, and at its return where that is odd. */
  | { readonly kind: 'evict'; readonly keep: number; readonly away: number | null }
  | { readonly kind: 'lose'; readonly count: number }
  | { readonly kind: 'double'; readonly count: number }
  | { readonly kind: 'restart'; readonly store: boolean; readonly away: number }
  | { readonly kind: 'wait'; readonly ms: number }

export interface Script {
  readonly generation: Generation
  readonly said: readonly (Run | Quiet)[]
  /** Where in the script each happens, from 0 to 1. */
  readonly faults: readonly { readonly at: number; readonly fault: Fault }[]
  /** Where Shoji connects first. */
  readonly join: number
  /** Steps from a connection's snapshot to its fence. */
  readonly fences: readonly number[]
  /** Fresh snapshots are ahead of their stream by up to so many events. */
  readonly ahead: number
  /** Each piece of a text is told from all others. */
  readonly distinct: boolean
}

const piece = fc.constantFrom('a', 'aa', 'ab ', 'lorem ', 'ipsum dolor ', 'ü\n', 'the same words again. ', '')
const part: fc.Arbitrary<Part> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('text' as const),
      pieces: fc.array(piece, { minLength: 1, maxLength: 7 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('thinking' as const),
      pieces: fc.array(piece, { maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('call' as const),
      args: fc.constantFrom('{}', 'null', '{"a":[2],"b":1}'),
      output: fc.constantFrom(undefined, '', 'out'),
      bad: fc.boolean(),
    }),
  },
)
const callEnd: fc.Arbitrary<CallEnd> = fc.oneof(
  { weight: 12, arbitrary: fc.constant('well' as const) },
  { weight: 5, arbitrary: fc.constantFrom('cut', 'error', 'cancel', 'pause', 'late', 'tools') },
)
const run: fc.Arbitrary<Run> = fc.record({
  kind: fc.constant('run' as const),
  by: fc.constantFrom('user', 'user', 'user', 'system'),
  input: fc.constantFrom('do', ' do it ', 'again', 'go on'),
  echoAfter: fc.nat(3),
  calls: fc.array(fc.record({ parts: fc.array(part, { maxLength: 4 }), end: callEnd }), {
    minLength: 1,
    maxLength: 3,
  }),
})
const quiet: fc.Arbitrary<Quiet> = fc.record({
  kind: fc.constant('quiet' as const),
  what: fc.constantFrom('notification', 'alert', 'error'),
})
const away = fc.oneof(fc.nat(2), fc.nat(12))
const faultOf: Readonly<Record<Fault['kind'], fc.Arbitrary<Fault>>> = {
  cut: fc.record({ kind: fc.constant('cut' as const), away }),
  lag: fc.record({ kind: fc.constant('lag' as const), steps: fc.integer({ min: 1, max: 12 }) }),
  evict: fc.record({
    kind: fc.constant('evict' as const),
    keep: fc.constantFrom(0, 0, 1, 2, 3, 6, 12),
    away: fc.option(fc.nat(5), { freq: 4, nil: null }),
  }),
  lose: fc.record({ kind: fc.constant('lose' as const), count: fc.integer({ min: 1, max: 6 }) }),
  double: fc.record({ kind: fc.constant('double' as const), count: fc.integer({ min: 1, max: 6 }) }),
  restart: fc.record({ kind: fc.constant('restart' as const), store: fc.boolean(), away }),
  wait: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(5, 300, 1_100, 2_500, 6_000) }),
}

/** Scripts in which these faults happen, by weight. */
export const script = (
  weights: Partial<Record<Fault['kind'], number>>,
  maxFaults = 4,
): fc.Arbitrary<Script> => {
  const kinds = Object.entries(weights) as [Fault['kind'], number][]
  const fault = fc.oneof(...kinds.map(([kind, weight]) => ({ weight, arbitrary: faultOf[kind] })))
  // Often at rest, when all is said.
  const at = fc.oneof(
    { weight: 3, arbitrary: fc.double({ min: 0, max: 1, noNaN: true }) },
    { weight: 1, arbitrary: fc.constant(1) },
  )
  return fc.record({
    generation: fc.constantFrom('events-ws', 'events-ws', 'protocol-ws'),
    said: fc.array(fc.oneof({ weight: 5, arbitrary: run }, { weight: 2, arbitrary: quiet }), {
      minLength: 1,
      maxLength: 4,
    }),
    faults: fc.array(fc.record({ at, fault }), { maxLength: maxFaults }),
    join: fc.oneof(
      { weight: 2, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.double({ min: 0, max: 0.7, noNaN: true }) },
    ),
    fences: fc.array(fc.nat(3), { minLength: 1, maxLength: 3 }),
    ahead: fc.constantFrom(0, 1, 4, 20),
    distinct: fc.boolean(),
  })
}

/** A step of a worker: one event, or something that a method of it does. Null where a run ends for good. */
export interface Step {
  readonly run: number
  act(teller: Teller): void
}

/** Ends every script whose faults may leave something for the next rest only. */
export const LAST_RUN: Run = {
  kind: 'run',
  by: 'user',
  input: 'the last words',
  echoAfter: 0,
  calls: [{ parts: [{ kind: 'text', pieces: ['good', 'bye'] }], end: 'well' }],
}

/** Says a script through a worker, and knows what of it never came into its log. */
export class Teller {
  worker: EmbeddedWorker
  /** Finished texts (by their mark) and calls of messages that failed: on screen or not, never compared. */
  readonly loose = new Set<string>()
  readonly #uncommitted = new Set<string>()

  constructor(worker: EmbeddedWorker) {
    this.worker = worker
  }

  emit(event: RuntimeEvent): void {
    this.worker.emit(event)
  }

  finished(mark: string): void {
    this.#uncommitted.add(mark)
  }

  committed(): void {
    this.#uncommitted.clear()
  }

  /** The message under way is thrown away. */
  failed(): void {
    for (const mark of this.#uncommitted) this.loose.add(mark)
    this.#uncommitted.clear()
  }
}

export function stepsOf(
  { said, generation, distinct }: Pick<Script, 'said' | 'generation' | 'distinct'>,
  prefix: string,
): Step[] {
  const steps: Step[] = []
  let marks = 0
  const later = generation === 'protocol-ws'
  for (const [run, one] of said.entries()) {
    const push = (act: (teller: Teller) => void): number => steps.push({ run, act })
    const say = (event: string, data?: RuntimeEvent['data']): number =>
      push(teller => teller.emit({ event, ...(data !== undefined && { data }) }))
    if (one.kind === 'quiet') {
      const item = notification(`${prefix}note ${marks++}`)
      if (one.what === 'notification' && later) say('system_item', { item })
      else if (one.what === 'notification')
        push(teller => teller.worker.appendLog({ kind: 'system_item', item }))
      else if (one.what === 'alert')
        say('alert', { level: 'warn', source: 's', message: 'm', timestamp_ms: 1 })
      else say('error', { code: 'not_running', message: 'Worker is not running' })
      continue
    }
    const begun = one.by
    open(one)
    if (answer(one)) {
      say('run_end', { result: 'finished' })
      say('status', { status: 'idle' })
    }

    function open({ by, input }: Run): void {
      const segments = [{ kind: 'text', content: input }]
      const text = `${prefix}note ${marks++}`
      if (!later) {
        if (by === 'user') say('user_message', { segments })
        else say('system_item', { item: { kind: 'embedded_worker_system_input', content: text } })
        say('status', { status: 'running' })
        return
      }
      const first = (teller: Teller): boolean => teller.worker.entries.length === 0
      push(teller => {
        if (first(teller)) {
          teller.emit({ event: 'status', data: { status: 'running' } })
          teller.emit({ event: 'segment_rotated', data: { entry: segmentStart(teller.worker.context) } })
        }
      })
      push(teller => {
        if (teller.worker.log.interrupted)
          teller.emit({ event: 'system_item', data: { item: interruptItem } })
      })
      say('invoke_start', { kind: by === 'user' ? 'user_send' : 'notify' })
      if (by === 'user') say('user_message', { segments })
      else say('system_item', { item: notification(text) })
      push(teller => {
        if (teller.worker.activity !== 'running')
          teller.emit({ event: 'status', data: { status: 'running' } })
      })
    }

    /** Whether the run ended well. */
    function answer({ calls, by, input, echoAfter }: Run): boolean {
      const echo = { at: steps.length + echoAfter, due: later && by === 'user' }
      const sayEcho = (force: boolean): void => {
        if (!echo.due || (!force && steps.length < echo.at)) return
        echo.due = false
        say('user_message', { segments: [{ kind: 'text', content: input }] })
      }
      let continued = false
      for (const { parts, end } of calls) {
        sayEcho(false)
        if (!continued)
          push(teller => teller.emit({ event: 'turn_start', data: { turn: teller.worker.turns } }))
        sayEcho(false)
        push(teller => teller.emit({ event: 'llm_call_start', data: { llm_call: teller.worker.llmCalls } }))
        sayEcho(true)
        continued = false
        const done: { id: string; part: Extract<Part, { kind: 'call' }> }[] = []
        // What never ends stands last: a stream that breaks breaks in it.
        const broken = end === 'cut' || end === 'error' || end === 'cancel' || end === 'pause'
        for (const [n, one] of parts.entries()) {
          const whole = !(broken && n === parts.length - 1)
          const id = tellPart(one, whole, end === 'cut')
          if (one.kind === 'call' && whole && end !== 'cut') done.push({ id, part: one })
        }
        if (end === 'cancel') return interrupt()
        if (end === 'pause') {
          push(teller => {
            teller.failed()
            teller.worker.pause()
          })
          if (later) {
            // The model is asked anew within the same turn (R53).
            push(teller => teller.worker.resume())
            continued = true
            continue
          }
          push(teller => teller.worker.cancel())
          return false
        }
        say('usage', { input_tokens: 9, output_tokens: 3, cache_read_input_tokens: 0 })
        if (end === 'error') return fail()
        push(teller => {
          teller.emit({ event: 'llm_call_end', data: { llm_call: teller.worker.llmCalls } })
          teller.committed()
        })
        if (end === 'cut') {
          say('llm_continuation', { llm_call: 0, reason: 'cut' })
          continued = true
          continue
        }
        if (end === 'late') return fail()
        push(teller =>
          teller.emit({ event: 'turn_end', data: { turn: teller.worker.turns, result: 'finished' } }),
        )
        for (const [n, { id, part }] of done.entries()) {
          if (end === 'tools' && n === done.length - 1) break
          const { output, bad } = part
          say('tool_result', {
            id,
            summary: `sum of ${id}`,
            ...(output !== undefined && { output }),
            is_error: bad,
          })
        }
        if (end === 'tools') return interrupt()
      }
      // A run does not end in a cut: it is asked for again, and says nothing more.
      if (continued) {
        push(teller => teller.emit({ event: 'llm_call_start', data: { llm_call: teller.worker.llmCalls } }))
        push(teller => teller.emit({ event: 'llm_call_end', data: { llm_call: teller.worker.llmCalls } }))
        push(teller =>
          teller.emit({ event: 'turn_end', data: { turn: teller.worker.turns, result: 'finished' } }),
        )
      }
      return true
    }

    function interrupt(): false {
      push(teller => {
        teller.failed()
        // What is rolled back of a run that no user began is not known from any recording.
        if (begun === 'system' && teller.worker.log.run?.output !== true) failRun(teller)
        else teller.worker.cancel()
      })
      return false
    }

    function failRun(teller: Teller): void {
      teller.emit({ event: 'error', data: { code: 'internal', message: 'Cancelled' } })
      teller.emit({ event: 'status', data: { status: 'idle' } })
    }

    function fail(): false {
      push(teller => {
        teller.failed()
        teller.emit({ event: 'error', data: { code: 'provider_error', message: 'it failed' } })
      })
      say('status', { status: 'idle' })
      return false
    }

    function tellPart(part: Part, whole: boolean, unlogged: boolean): string {
      const mark = `${prefix}${marks++}`
      if (part.kind === 'call') {
        const id = `call_${mark}`
        say('tool_call_start', { id, name: 'Bash' })
        say('tool_call_args_delta', { id, json: part.args })
        if (!whole || unlogged) return id
        push(teller => {
          teller.finished(id)
          teller.emit({ event: 'tool_call_done', data: { id, name: 'Bash', arguments: part.args } })
        })
        return id
      }
      const pieces = part.pieces.map((one, n) => (distinct ? `${one}${marks}.${n} ` : one))
      const text = `${pieces.join('')}#${mark};`
      if (part.kind === 'thinking') say('thinking_start')
      for (const one of pieces) say(`${part.kind}_delta`, { text: one })
      if (!whole) return mark
      say(`${part.kind}_delta`, { text: `#${mark};` })
      push(teller => {
        if (part.kind === 'text') teller.finished(`#${mark};`)
        teller.emit({ event: `${part.kind}_done`, data: { text } })
      })
      return mark
    }
  }
  return steps
}
