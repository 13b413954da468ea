import { describe, expect, it } from 'vitest'
import type { Json } from '../../lib/json.ts'
import { MOVES } from './message-phase.ts'
import { emptySaid, SAID_LIMITS, type Said, say, sayLogged, saysNothing } from './said.ts'
import { createMac } from './utterance.ts'

const mac = createMac(Buffer.from('key'))

type Told = readonly [event: string, data?: Json]
const tell = (events: readonly Told[], said: Said = emptySaid()): Said => {
  for (const [event, data = {}] of events) say(said, event, data, mac)
  return said
}
const items = (...events: Told[]): string[] => tell(events).items
/** What is said, by kind. */
const kinds = (...events: Told[]): string =>
  items(...events)
    .map(item => /^\??./.exec(item)![0])
    .join('')

const user = (content: string): Told => ['user_message', { segments: [{ kind: 'text', content }] }]
const text = (t: string): Told => ['text_done', { text: t }]
const call = (id: string): Told => ['tool_call_done', { id, name: 'Bash', arguments: '{}' }]
const result = (id: string, output = ''): Told => [
  'tool_result',
  { id, summary: 's', output, is_error: false },
]
const think = (t: string): Told => ['thinking_done', { text: t }]
const status = (s: string): Told => ['status', { status: s }]
const runEnd = (r: string): Told => ['run_end', { result: r }]
const system = (item: Json): Told => ['system_item', { item }]
const callStart: Told = ['llm_call_start', { llm_call: 0 }]
const callEnd: Told = ['llm_call_end', { llm_call: 0 }]
const turnEnd: Told = ['turn_end', { turn: 0 }]
const error: Told = ['error', { code: 'internal', message: 'Cancelled' }]
const cut: Told = ['llm_continuation', { llm_call: 0 }]

describe('a message', () => {
  it('is one text, however many blocks and turns of thinking it had', () => {
    const one = items(callStart, text('Hello '), think('hm'), text('world'), callEnd, turnEnd)
    expect(one).toEqual(items(text('Hello world'), callEnd, turnEnd))
    expect(one).toHaveLength(1)
  })

  it('says its texts first and then its calls, in whatever order they came', () => {
    const ordered = items(text('a'), text('b'), call('1'), call('2'), turnEnd)
    expect(items(call('1'), text('a'), call('2'), text('b'), turnEnd)).toEqual(ordered)
    expect(kinds(call('1'), text('a'), turnEnd)).toBe('tc')
  })

  it.each([
    ['the next call', callStart],
    ['the end of its turn', turnEnd],
    ['the next turn', ['turn_start'] as Told],
    ['a result', result('1')],
    ['an input', user('next')],
    ['the end of its run', runEnd('finished')],
    ['the end of activity', status('idle')],
  ])('ends at %s', (_, end) => {
    const said = tell([text('a'), end])
    expect(said.items[0]).toBe(items(text('a'), turnEnd)[0])
    expect(tell([text('b'), turnEnd], said).items.at(-1)).toBe(items(text('b'), turnEnd)[0])
  })

  it('does not end at what else comes meanwhile', () => {
    const others: Told[] = [
      ['usage'],
      ['alert'],
      ['command'],
      status('running'),
      ['text_delta', { text: 'x' }],
      ['constructor'],
      ['completions'],
    ]
    expect(items(text('a'), ...others, text('b'), turnEnd)).toEqual(items(text('ab'), turnEnd))
  })

  it('is not said while it is under way, nor if it is empty', () => {
    expect(items(text('a'), call('1'))).toEqual([])
    expect(items(text(''), turnEnd)).toEqual([])
    expect(saysNothing(tell([text('a')]))).toBe(true)
    expect(saysNothing(tell([text('a'), turnEnd]))).toBe(false)
  })

  it('goes on over an error that was about something else', () => {
    expect(items(text('a'), error, text('b'), callEnd, turnEnd)).toEqual(items(text('ab'), turnEnd))
    expect(items(text('a'), error, callEnd, turnEnd)).toEqual(items(text('a'), turnEnd))
  })

  it('that is cut keeps its finished texts, and its finished calls for doubtful', () => {
    expect(kinds(text('a'), call('1'), callEnd, cut, callStart, text('b'), callEnd, turnEnd)).toBe('t?ct')
    expect(kinds(callStart, callEnd, cut, callStart, text('b'), callEnd, turnEnd)).toBe('t')
  })
})

describe('a message that fails', () => {
  it.each([
    ['cancelled', [error, status('idle')]],
    ['paused', [runEnd('paused'), status('paused')]],
    ['stopped', [['shutdown'] as Told]],
  ])('says nothing of what was finished when %s', (_, end) => {
    expect(items(user('u'), callStart, text('a'), call('1'), ...end)).toEqual(items(user('u')))
  })

  it('may stand in front of the next one that is logged', () => {
    const before = [text('a'), call('1'), error, status('idle'), user('u')]
    expect(kinds(...before, text('b'), callEnd, turnEnd)).toBe('ut?c')
    const next = items(...before, text('b'), callEnd, turnEnd)[1]!
    expect(next).toContain(items(text('b'), turnEnd)[0]!)
    expect(next.endsWith(items(text('ab'), turnEnd)[0]!.slice(1))).toBe(true)
    expect(kinds(...before, call('2'), callEnd, turnEnd)).toBe('u?t?cc')
    // Once only.
    expect(kinds(...before, call('2'), turnEnd, text('c'), turnEnd)).toBe('u?t?cct')
  })

  it('after its call had ended is doubtful itself', () => {
    expect(kinds(text('a'), callEnd, error, status('idle'))).toBe('?t')
    expect(kinds(text('a'), callEnd, error, status('idle'), text('b'), callEnd, turnEnd)).toBe('?tt')
  })
})

describe('results', () => {
  it('are said once', () => {
    expect(kinds(call('1'), turnEnd, result('1', 'x'), result('1', 'x'), result('1', 'y'), result('2'))).toBe(
      'crr',
    )
  })

  it('are said whatever became of their call', () => {
    expect(kinds(result('1'))).toBe('r')
  })
})

describe('a run that is rolled back', () => {
  const before = [user('one'), text('a'), turnEnd, runEnd('finished'), status('idle')]

  it('unsays everything since its first input', () => {
    const rolled = [user('two'), status('running'), callStart, user('three'), runEnd('rolled_back')]
    expect(items(...before, ...rolled, status('idle'))).toEqual(items(...before))
    const kept = tell([
      ...before,
      system({ kind: 'interrupt' }),
      ...rolled.slice(0, 1),
      system({ kind: 'knowledge' }),
    ])
    expect(tell([runEnd('rolled_back')], kept).system).toHaveLength(1)
  })

  it('unsays nothing if nothing was put in', () => {
    expect(items(...before, status('running'), runEnd('rolled_back'))).toEqual(items(...before))
  })

  it.each([
    ['run_end', runEnd('finished')],
    ['rest', status('idle')],
    ['shutdown', ['shutdown'] as Told],
  ])('begins after the %s of the one before', (_, end) => {
    expect(items(user('one'), end, user('two'), runEnd('rolled_back'))).toEqual(items(user('one')))
  })
})

describe('system items', () => {
  it('are kept apart, and echoes of commands not at all', () => {
    const said = tell([
      system({ kind: 'interrupt', body: 'x' }),
      system({ kind: 'embedded_worker_command_input', command: 'compact', content: '' }),
      system({ kind: 'embedded_worker_system_input', content: 'red' }),
    ])
    expect(said.system.map(item => item[0])).toEqual(['s', 'n'])
    expect(said.items).toEqual([])
    expect(saysNothing(said)).toBe(false)
  })

  it('do not end a message', () => {
    expect(items(text('a'), system({ kind: 'interrupt' }), text('b'), turnEnd)).toEqual(
      items(text('ab'), turnEnd),
    )
  })
})

it('what is adopted from a log counts at once, each text for itself', () => {
  const said = emptySaid()
  for (const [event, data = {}] of [
    text('a'),
    text('b'),
    text(''),
    call('1'),
    result('1'),
    result('1'),
    user('u'),
  ])
    sayLogged(said, event, data, mac)
  sayLogged(said, 'system_item', { item: { kind: 'interrupt' } }, mac)
  expect(said.items).toEqual(
    items(text('a'), turnEnd, text('b'), turnEnd, call('1'), turnEnd, result('1'), user('u')),
  )
  expect(said.system).toHaveLength(1)
})

it('goes on from its own JSON in the middle of anything', () => {
  const events: Told[] = [
    ...[user('u'), callStart, think('h'), text('a'), error, status('idle'), user('v'), text('b'), call('1')],
    ...[callEnd, turnEnd, result('1'), text('c'), runEnd('rolled_back')],
  ]
  for (let i = 0; i <= events.length; i++) {
    const half: Said = JSON.parse(JSON.stringify(tell(events.slice(0, i))))
    expect(tell(events.slice(i), half)).toEqual(tell(events))
  }
})

it('takes at most a mebibyte, and folds the oldest', () => {
  const said = emptySaid()
  const doubtful: Told[] = [call('x'), callEnd, cut, call('y'), error, status('idle'), text('t'), turnEnd]
  for (let i = 0; i < SAID_LIMITS.items + 5_000; i++) {
    tell(i % 100 === 0 ? doubtful : [call(`${i}`), turnEnd], said)
    tell([system({ kind: 'interrupt', body: `${i}` })], said)
  }
  expect(said.items.length).toBeLessThanOrEqual(SAID_LIMITS.items)
  expect(said.folded.count).toBeGreaterThan(0)
  expect(said.gone).toBeGreaterThan(said.folded.count)
  expect(said.system.length).toBeLessThanOrEqual(SAID_LIMITS.system)
  expect(Buffer.byteLength(JSON.stringify(said))).toBeLessThan(1024 * 1024)
})

it('bounds the calls of a message and the thinking it remembers', () => {
  const many = Array.from({ length: 1_000 }, (_, i) => i)
  const said = tell(many.flatMap(i => [call(`${i}`), think(`${i}`)]))
  expect(said.message.calls).toHaveLength(SAID_LIMITS.parts)
  expect(said.thinking).toHaveLength(SAID_LIMITS.thinking)
  const loose = tell([
    ...many.map(i => call(`${i}`)),
    error,
    status('idle'),
    ...many.map(i => call(`${i}`)),
    error,
    status('idle'),
  ])
  expect(loose.loose.calls).toHaveLength(SAID_LIMITS.parts)
})

it('the phases have a move for every signal, and only `speaking` is entered by a part', () => {
  const signals = Object.keys(MOVES.quiet)
  for (const [phase, moves] of Object.entries(MOVES)) {
    expect(Object.keys(moves), phase).toEqual(signals)
    for (const [signal, { to }] of Object.entries(moves))
      expect(to === 'speaking', signal).toBe(signal === 'part')
  }
})
