import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Comparison, compareSaid } from '../../src/journal/continuity/compare-said.ts'
import { emptySaid, type Said, say, sayLogged } from '../../src/journal/continuity/said.ts'
import { saidOfList } from '../../src/journal/continuity/said-list.ts'
import { createMac } from '../../src/journal/continuity/utterance.ts'
import { asSeq } from '../../src/journal/entry.ts'
import { expandList } from '../../src/journal/expand.ts'
import type { Json } from '../../src/lib/json.ts'

/**
 * Random conversations, told twice: as live events, and as the log that the Runtime writes of the same. What
 * was told live says the same as the snapshot.
 */
const mac = createMac(Buffer.from('law'))
const runs = { numRuns: 400 }

interface Told {
  readonly event: string
  readonly data: Json
}

type Part =
  | { readonly part: 'text' | 'thinking'; readonly text: string }
  | {
      readonly part: 'call'
      readonly args: string
      readonly output: string | undefined
      readonly bad: boolean
    }

/** How a model call ends. `late`: its call ends well, and then the run fails. */
type CallEnd = 'well' | 'cut' | 'failed' | 'paused' | 'late'

interface Call {
  readonly parts: readonly Part[]
  readonly end: CallEnd
}

interface Run {
  /** Given by a user, by a client as a system input, or by something that only the log tells. */
  readonly by: 'user' | 'echo' | 'unseen'
  readonly input: string
  readonly calls: readonly Call[]
  /** Cancelled before any output. */
  readonly rolledBack: boolean
}

/** What becomes of the finished parts of a message that failed: both kinds of Runtime are to be had. */
type Loose = 'kept' | 'dropped'

const word = fc.constantFrom('a', 'b', 'hello', '  blank ', 'ü\n', '')
const part: fc.Arbitrary<Part> = fc.oneof(
  fc.record({ part: fc.constantFrom('text' as const, 'thinking' as const), text: word }),
  fc.record({
    part: fc.constant('call' as const),
    args: fc.constantFrom('{}', 'null', '{"b":1,"a":[2]}', '{"command":"ls"}'),
    output: fc.constantFrom(undefined, '', 'out'),
    bad: fc.boolean(),
  }),
)
const call: fc.Arbitrary<Call> = fc.record({
  parts: fc.array(part, { maxLength: 5 }),
  end: fc.oneof(
    { weight: 6, arbitrary: fc.constant('well' as const) },
    {
      weight: 2,
      arbitrary: fc.constantFrom('cut' as const, 'failed' as const, 'paused' as const, 'late' as const),
    },
  ),
})
const run: fc.Arbitrary<Run> = fc.record({
  by: fc.constantFrom('user', 'user', 'user', 'echo', 'unseen'),
  input: fc.constantFrom('do', ' do it ', 'again'),
  calls: fc.array(call, { minLength: 1, maxLength: 4 }),
  rolledBack: fc.oneof(
    { weight: 8, arbitrary: fc.constant(false) },
    { weight: 1, arbitrary: fc.constant(true) },
  ),
})
const conversation = fc.array(run, { maxLength: 5 })
const loose = fc.constantFrom<Loose>('kept', 'dropped')

interface LoggedCall {
  readonly id: string
  readonly args: string
  readonly output: string | undefined
  readonly bad: boolean
}

/** A Runtime that says and logs. */
class Teller {
  readonly live: Told[] = []
  readonly entries: Json[] = []
  readonly #loose: Loose
  #ids = 0
  #thoughts: string[] = []
  #texts: string[] = []
  #calls: LoggedCall[] = []

  constructor(kept: Loose) {
    this.#loose = kept
  }

  run({ by, input, calls, rolledBack }: Run): void {
    const segments = [{ kind: 'text', content: input }]
    const before = this.entries.length
    if (by === 'user') {
      this.#say('user_message', { segments })
      this.entries.push({ kind: 'user_input', segments: [{ content: input.trim(), kind: 'text' }] })
    } else {
      if (by === 'echo')
        this.#say('system_item', { item: { kind: 'embedded_worker_system_input', content: input } })
      const item = { body: `[Notification] ${input}`, kind: 'notification', message: input }
      this.entries.push({ kind: 'system_item', item })
    }
    this.#say('status', { status: 'running' })
    this.#say('turn_start')
    if (rolledBack && by === 'user') {
      this.#say('llm_call_start')
      this.entries.length = before
      this.#say('run_end', { result: 'rolled_back' })
    } else if (this.#calls_(calls)) {
      this.#say('run_end', { result: 'finished' })
      this.entries.push({ kind: 'run_completed', result: 'finished' })
    }
    this.#say('status', { status: 'idle' })
  }

  /** Whether the run ended well. */
  #calls_(calls: readonly Call[]): boolean {
    for (const { parts, end } of calls) {
      this.#say('llm_call_start')
      for (const one of parts) this.#part(one)
      this.#say('usage')
      if (end === 'failed' || end === 'paused') return this.#fail(end)
      this.#say('llm_call_end')
      if (end === 'late') {
        if (this.#loose === 'dropped') this.#log()
        return this.#fail('failed')
      }
      if (end === 'cut') {
        if (this.#loose === 'kept') this.#calls = []
        this.#log()
        this.#say('llm_continuation')
        continue
      }
      this.#say('turn_end')
      const done = this.#log()
      for (const { id, output, bad } of done) {
        const content = output === undefined ? {} : { output }
        this.#say('tool_result', { id, summary: 's', ...content, is_error: bad })
        const logged = { ...(output !== undefined && { content: output }), ...(bad && { is_error: true }) }
        this.entries.push({
          kind: 'tool_result',
          item: { kind: 'tool_result', call_id: id, summary: 's', ...logged },
        })
      }
      this.#say('turn_start')
    }
    return true
  }

  #part(one: Part): void {
    if (one.part === 'call') {
      const id = `call_${this.#ids++}`
      this.#say('tool_call_start', { id, name: 'Bash' })
      this.#say('tool_call_done', { id, name: 'Bash', arguments: one.args })
      this.#calls.push({ id, args: one.args, output: one.output, bad: one.bad })
      return
    }
    this.#say(`${one.part}_delta`, { text: one.text })
    this.#say(`${one.part}_done`, { text: one.text })
    if (one.part === 'text') this.#texts.push(one.text)
    else this.#thoughts.push(one.text)
  }

  /** All reasoning, one message with the texts joined, the calls (R31). */
  #log(): LoggedCall[] {
    const item = (of: Json): number => this.entries.push({ kind: 'assistant_item', item: of })
    for (const text of this.#thoughts) item({ kind: 'reasoning', text, summary: [] })
    const text = this.#texts.join('')
    if (text !== '') item({ content: [{ kind: 'text', text }], kind: 'message', role: 'assistant' })
    for (const { id, args } of this.#calls)
      item({ arguments: args === 'null' ? '{}' : args, call_id: id, kind: 'tool_call', name: 'Bash' })
    const done = this.#calls
    this.#thoughts = []
    this.#texts = []
    this.#calls = []
    return done
  }

  #fail(how: 'failed' | 'paused'): false {
    if (how === 'paused') this.#say('run_end', { result: 'paused' })
    else this.#say('error', { code: 'internal', message: 'Cancelled' })
    this.entries.push({ kind: 'run_errored', message: 'Cancelled', interrupted: true })
    if (this.#loose === 'dropped') {
      this.#thoughts = []
      this.#texts = []
      this.#calls = []
    }
    return false
  }

  #say(event: string, data: Json = {}): void {
    this.live.push({ event, data })
  }
}

const tell = (conversation: readonly Run[], kept: Loose): Teller => {
  const teller = new Teller(kept)
  for (const one of conversation) teller.run(one)
  return teller
}

const saidOf = (events: readonly Told[]): Said => {
  const said = emptySaid()
  for (const { event, data } of events) say(said, event, data, mac)
  return said
}

const compare = (ours: Said, entries: readonly Json[]): Comparison => {
  const { list } = expandList('snapshot', { entries, status: 'idle' }, asSeq(1), { status: null })
  return compareSaid(ours, saidOfList(list, mac), mac)
}

describe('what was told live', () => {
  it('says the same as the snapshot, and what only the log tells is all that is more', () => {
    fc.assert(
      fc.property(conversation, loose, (runs, kept) => {
        const { live, entries } = tell(runs, kept)
        const comparison = compare(saidOf(live), entries)
        const unseen = runs.filter(({ by }) => by === 'unseen').length
        if (unseen === 0) expect(comparison).toEqual({ verdict: 'same' })
        else expect(comparison).toMatchObject({ verdict: 'more', missing: { length: unseen } })
      }),
      runs,
    )
  })

  it('and then loses its end, says less, and the same again once that is adopted', () => {
    fc.assert(
      fc.property(conversation, conversation, (before, after) => {
        // Without what is in doubt: there the end that is lost decides what the beginning was.
        const sure = (runs: readonly Run[]): Run[] =>
          runs.map(one => ({ ...one, calls: one.calls.map(c => ({ ...c, end: 'well' as const })) }))
        const heard = tell(sure(before), 'dropped').live.length
        const { live, entries } = tell(sure([...before, ...after]), 'dropped')
        const ours = saidOf(live.slice(0, heard))
        const comparison = compare(ours, entries)
        expect(comparison.verdict).not.toBe('differs')
        if (comparison.verdict === 'more')
          for (const { event, data } of comparison.missing) sayLogged(ours, event, data, mac)
        expect(compare(ours, entries)).toEqual({ verdict: 'same' })
      }),
      runs,
    )
  })

  it('is the same in whatever order the texts and calls of a message come', () => {
    const shuffled = fc.tuple(fc.array(part, { maxLength: 6 }), fc.infiniteStream(fc.boolean()))
    fc.assert(
      fc.property(shuffled, ([parts, coins]) => {
        const texts = parts.filter(p => p.part !== 'call')
        const calls = parts.filter(p => p.part === 'call')
        const mixed: Part[] = []
        const [left, right] = [[...texts], [...calls]] as [Part[], Part[]]
        while (left.length + right.length > 0) {
          const from = right.length === 0 || (left.length > 0 && coins.next().value) ? left : right
          mixed.push(from.shift()!)
        }
        const of = (order: readonly Part[]): Said =>
          saidOf(
            tell(
              [{ by: 'user', input: 'u', calls: [{ parts: order, end: 'well' }], rolledBack: false }],
              'kept',
            ).live,
          )
        const ids = (said: Said): string[] => said.items
        expect(ids(of(mixed))).toEqual(ids(of([...texts, ...calls])))
      }),
      runs,
    )
  })

  it('differs from a log in which one thing it said is another', () => {
    const changed = fc.tuple(conversation, fc.nat())
    fc.assert(
      fc.property(changed, ([runs, at]) => {
        const { live, entries } = tell(runs, 'dropped')
        const inputs = entries.flatMap((e, i) => (e.kind === 'user_input' ? [i] : []))
        fc.pre(inputs.length > 0)
        const target = inputs[at % inputs.length]!
        const other = { kind: 'user_input', segments: [{ kind: 'text', content: 'nobody said this' }] }
        const comparison = compare(saidOf(live), entries.with(target, other))
        expect(comparison).toMatchObject({ verdict: 'differs' })
        expect(comparison.verdict === 'differs' && comparison.classes.includes('user_input')).toBe(true)
      }),
      runs,
    )
  })
})
