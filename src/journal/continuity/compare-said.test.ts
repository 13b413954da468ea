import { describe, expect, it } from 'vitest'
import type { Json } from '../../lib/json.ts'
import { asSeq } from '../entry.ts'
import { expandList } from '../expand.ts'
import { type Comparison, compareSaid } from './compare-said.ts'
import { emptySaid, SAID_LIMITS, type Said, say, sayLogged } from './said.ts'
import { type SaidList, saidOfList } from './said-list.ts'
import { createMac } from './utterance.ts'

const mac = createMac(Buffer.from('key'))

type Told = readonly [event: string, data?: Json]
const live = (...events: Told[]): Said => {
  const said = emptySaid()
  for (const [event, data = {}] of events) say(said, event, data, mac)
  return said
}
const list = (entries: readonly Json[], more: Json = {}): SaidList =>
  saidOfList(
    expandList('snapshot', { entries, status: 'idle', ...more }, asSeq(1), { status: null }).list,
    mac,
  )
const compare = (ours: Said, entries: readonly Json[]): Comparison => compareSaid(ours, list(entries), mac)
const missing = (ours: Said, entries: readonly Json[]): string[] => {
  const comparison = compare(ours, entries)
  return comparison.verdict === 'more' ? comparison.missing.map(m => m.event) : [comparison.verdict]
}
const classes = (ours: Said, entries: readonly Json[]): readonly string[] => {
  const comparison = compare(ours, entries)
  return comparison.verdict === 'differs' ? comparison.classes : [comparison.verdict]
}

const segments = (content: string): Json[] => [{ kind: 'text', content }]
const user = (content: string): Told => ['user_message', { segments: segments(content) }]
const text = (t: string): Told => ['text_done', { text: t }]
const call = (id: string, args = '{}'): Told => ['tool_call_done', { id, name: 'Bash', arguments: args }]
const result = (id: string): Told => ['tool_result', { id, summary: 's', is_error: false }]
const system = (item: Json): Told => ['system_item', { item }]
const turnEnd: Told = ['turn_end']
const failed: Told[] = [['error'], ['status', { status: 'idle' }]]

const logged = (kind: string, rest: Json): Json => ({ kind, ts: 1, ...rest })
const item = (rest: Json): Json => logged('assistant_item', { item: rest })
const start = logged('segment_start', { system_prompt: 'You are', history: [] })
const done = logged('run_completed', { result: 'finished' })
const userEntry = (content: string): Json => logged('user_input', { segments: segments(content) })
const message = (t: string): Json =>
  item({ kind: 'message', role: 'assistant', content: [{ kind: 'text', text: t }] })
const reasoning = (t: string): Json => item({ kind: 'reasoning', text: t, summary: [] })
const callEntry = (id: string, args = '{}'): Json =>
  item({ kind: 'tool_call', call_id: id, name: 'Bash', arguments: args })
const resultEntry = (id: string): Json =>
  logged('tool_result', { item: { kind: 'tool_result', call_id: id, summary: 's' } })
const systemEntry = (of: Json): Json => logged('system_item', { item: of })
const notification = (m: string): Json => ({ kind: 'notification', message: m, body: `[Notification]\n${m}` })

const turn: Told[] = [user('u'), text('a'), call('1', 'null'), turnEnd, result('1')]
const turnEntries: Json[] = [start, userEntry('u'), message('a'), callEntry('1'), resultEntry('1')]

describe('the same', () => {
  it('is a log that says in its way what was told live', () => {
    expect(compare(live(...turn), turnEntries)).toEqual({ verdict: 'same' })
    expect(compare(emptySaid(), [])).toEqual({ verdict: 'same' })
    expect(compare(emptySaid(), [start])).toEqual({ verdict: 'same' })
  })

  it('leaves out thinking, errors, and what is not logged yet', () => {
    const ours = live(['thinking_done', { text: 'h' }], ...turn, text('b'), ['error'], ['alert'])
    expect(compare(ours, [start, userEntry('u'), reasoning('other'), ...turnEntries.slice(2), done])).toEqual(
      {
        verdict: 'same',
      },
    )
  })

  it('leaves out repetitions of a result in the log', () => {
    expect(compare(live(...turn), [...turnEntries, resultEntry('1')])).toEqual({ verdict: 'same' })
  })

  it('is a failed message forgotten, or in front of the next one', () => {
    const ours = live(user('u'), text('a'), call('1'), ...failed, user('v'), text('b'), call('2'), turnEnd)
    const after = [start, userEntry('u'), userEntry('v')]
    expect(compare(ours, [...after, message('b'), callEntry('2')])).toEqual({ verdict: 'same' })
    expect(compare(ours, [...after, message('ab'), callEntry('1'), callEntry('2')])).toEqual({
      verdict: 'same',
    })
    expect(compare(ours, [...after, message('a'), callEntry('2')]).verdict).toBe('differs')
  })

  it('is a failed message forgotten though the same was said after it', () => {
    const ended: Told[] = [['llm_call_end'], turnEnd]
    const ours = live(user('u'), text('a'), ...failed, ...ended, ['turn_start'], text('a'), ...ended)
    expect(compare(ours, [userEntry('u'), message('a')])).toEqual({ verdict: 'same' })
    expect(compare(ours, [userEntry('u'), message('a'), message('a')])).toEqual({ verdict: 'same' })
    expect(compare(ours, [userEntry('u')]).verdict).toBe('differs')
  })

  it('is a call that was cut thrown away, or kept', () => {
    const ours = live(text('a'), call('1'), ['llm_call_end'], ['llm_continuation'], text('b'), turnEnd)
    expect(compare(ours, [message('a'), message('b')])).toEqual({ verdict: 'same' })
    expect(compare(ours, [message('a'), callEntry('1'), message('b')])).toEqual({ verdict: 'same' })
  })

  it('is a message whose call ended before the run failed, logged or loose', () => {
    const ours = live(text('a'), ['llm_call_end'], ...failed, user('v'), text('b'), turnEnd)
    expect(compare(ours, [message('a'), userEntry('v'), message('b')])).toEqual({ verdict: 'same' })
    expect(compare(ours, [userEntry('v'), message('ab')])).toEqual({ verdict: 'same' })
  })

  it('remembers what is loose over a list that replaces another', () => {
    const before = live(text('a'), ...failed)
    const rewound = expandList('rewind_applied', { entries: [start] }, asSeq(1), { status: 'idle' })
    const { said } = saidOfList(rewound.list, mac, before)
    for (const [event, data = {}] of [user('v'), text('b'), turnEnd]) say(said, event, data, mac)
    expect(compare(said, [start, userEntry('v'), message('ab')])).toEqual({ verdict: 'same' })
  })
})

describe('more', () => {
  it('is what stands behind what was told, as the events that tell it', () => {
    const more = [reasoning('h'), message('b'), callEntry('2', '{"x":1}'), resultEntry('2'), userEntry('v')]
    const comparison = compare(live(...turn), [...turnEntries, ...more])
    expect(comparison).toMatchObject({
      verdict: 'more',
      missing: [
        { event: 'thinking_start', data: {} },
        { event: 'thinking_done', data: { text: 'h' } },
        { event: 'text_done', data: { text: 'b' }, time: 1 },
        { event: 'tool_call_done', data: { id: '2', name: 'Bash', arguments: '{"x":1}' } },
        { event: 'tool_result', data: { id: '2' } },
        { event: 'user_message', data: { segments: segments('v') } },
      ],
    })
    const macs = comparison.verdict === 'more' ? comparison.missing.map(m => m.mac) : []
    expect(macs.every(m => /^[0-9a-f]{16}$/.test(m))).toBe(true)
    // The thinking goes by the digest of its message.
    expect(new Set(macs).size).toBe(4)
  })

  it('is the calls of a message whose text was told, without its thinking', () => {
    expect(
      missing(live(user('u'), text('a'), turnEnd), [
        userEntry('u'),
        reasoning('h'),
        message('a'),
        callEntry('1'),
      ]),
    ).toEqual(['tool_call_done'])
  })

  it('does not tell thinking again whose text alone was lost', () => {
    const ours = live(user('u'), ['thinking_done', { text: 'h' }], ['turn_end'])
    expect(missing(ours, [userEntry('u'), reasoning('h'), reasoning('i'), message('a')])).toEqual([
      'thinking_start',
      'thinking_done',
      'text_done',
    ])
  })

  it('is system items anywhere', () => {
    const entries = [
      systemEntry({ kind: 'interrupt', body: 'x' }),
      ...turnEntries,
      systemEntry(notification('n')),
    ]
    expect(missing(live(...turn), entries)).toEqual(['system_item', 'system_item'])
    expect(missing(live(system({ body: 'x', kind: 'interrupt' }), ...turn), entries)).toEqual(['system_item'])
  })

  it('is nothing any more once it was adopted', () => {
    const ours = live(...turn)
    const entries = [
      ...turnEntries,
      message('b'),
      message('c'),
      systemEntry(notification('n')),
      userEntry('v'),
    ]
    const comparison = compare(ours, entries)
    if (comparison.verdict !== 'more') throw new Error(comparison.verdict)
    for (const { event, data } of comparison.missing) sayLogged(ours, event, data, mac)
    expect(compare(ours, entries)).toEqual({ verdict: 'same' })
  })
})

describe('system items', () => {
  it('are one with the echo of the input that made them, once', () => {
    const ours = live(system({ kind: 'embedded_worker_system_input', content: 'red' }))
    expect(compare(ours, [systemEntry(notification('red'))])).toEqual({ verdict: 'same' })
    expect(missing(ours, [systemEntry(notification('red')), systemEntry(notification('red'))])).toEqual([
      'system_item',
    ])
    expect(missing(ours, [systemEntry(notification('green'))])).toEqual(['system_item'])
    expect(missing(ours, [systemEntry({ kind: 'knowledge', message: 'red' })])).toEqual(['system_item'])
  })

  it('are a bag: their order does not count, nor how often the stream told one', () => {
    const a = { kind: 'interrupt', body: 'a' }
    const b = { kind: 'interrupt', body: 'b' }
    expect(compare(live(system(b), system(a), system(a)), [systemEntry(a), systemEntry(b)])).toEqual({
      verdict: 'same',
    })
    expect(missing(live(system(a)), [systemEntry(a), systemEntry(a)])).toEqual(['system_item'])
  })

  it('that only we have are a difference, echoes aside', () => {
    expect(classes(live(system({ kind: 'interrupt' })), [])).toEqual(['system'])
    expect(compare(live(system({ kind: 'embedded_worker_command_input', content: '' })), [])).toEqual({
      verdict: 'same',
    })
    expect(compare(live(system({ kind: 'embedded_worker_system_input', content: 'x' })), [])).toEqual({
      verdict: 'same',
    })
  })
})

describe('differences', () => {
  it('are named by the classes in which they are', () => {
    const [, input, text_, call_, result_] = turnEntries as [Json, Json, Json, Json, Json]
    const ours = live(...turn)
    expect(classes(ours, [userEntry('x'), text_, call_, result_])).toEqual(['user_input'])
    expect(classes(ours, [input, message('x'), call_, result_])).toEqual(['assistant_text'])
    expect(classes(ours, [input, text_, callEntry('1', '{"x":1}'), result_])).toEqual(['tool_args'])
    expect(classes(ours, [input, text_, callEntry('2'), resultEntry('2')])).toEqual([
      'tool_call',
      'tool_output',
    ])
    expect(classes(ours, [input, text_, call_])).toEqual(['tool_output'])
    expect(classes(ours, [input, call_, result_])).toEqual(['assistant_text'])
    expect(classes(ours, [input, text_, result_])).toEqual(['tool_call', 'tool_args'])
    expect(classes(ours, [])).toEqual([
      'user_input',
      'assistant_text',
      'tool_call',
      'tool_args',
      'tool_output',
    ])
    expect(classes(ours, [userEntry('x'), text_, call_, result_, systemEntry(notification('n'))])).toEqual([
      'user_input',
      'system',
    ])
  })

  it('in order alone are in all classes whose order it is', () => {
    const ours = live(user('u'), text('a'), turnEnd, user('v'), text('b'), turnEnd)
    expect(classes(ours, [userEntry('u'), userEntry('v'), message('a'), message('b')])).toEqual([
      'user_input',
      'assistant_text',
    ])
  })

  it('are texts that were two messages', () => {
    expect(classes(live(text('a'), turnEnd, text('b'), turnEnd), [message('ab')])).toEqual(['assistant_text'])
    expect(compare(live(text('a'), text('b'), turnEnd), [message('ab')])).toEqual({ verdict: 'same' })
  })
})

describe('beyond the limit', () => {
  const count = SAID_LIMITS.items + 10
  const texts = Array.from({ length: count }, (_, i) => `${i}`)
  const ours = live(...texts.flatMap(t => [text(t), turnEnd]))
  const entries = texts.map(message)

  it('what is folded is compared as one', () => {
    expect(ours.folded.count).toBeGreaterThan(0)
    expect(compare(ours, entries)).toEqual({ verdict: 'same' })
    expect(missing(ours, [...entries, message('more')])).toEqual(['text_done'])
    expect(compareSaid(list(entries).said, list(entries), mac)).toEqual({ verdict: 'same' })
  })

  it('a difference in what is folded is one in every class', () => {
    const all = ['user_input', 'assistant_text', 'tool_call', 'tool_args', 'tool_output']
    expect(classes(ours, [message('x'), ...entries.slice(1)])).toEqual(all)
    expect(classes(ours, entries.slice(0, 10))).toEqual(all)
  })

  it('system items that may have been forgotten are not adopted', () => {
    const body = (i: number): Json => ({ kind: 'interrupt', body: `${i}` })
    const many = Array.from({ length: SAID_LIMITS.system + 1 }, (_, i) => body(i))
    const forgetful = live(...many.map(system))
    expect(forgetful.systemGone).toBeGreaterThan(0)
    expect(compare(forgetful, [...many, body(-1)].map(systemEntry))).toEqual({ verdict: 'same' })
  })
})
