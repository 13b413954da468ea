import { expect, it } from 'vitest'
import type { Json } from '../../lib/json.ts'
import { asSeq } from '../entry.ts'
import { expandList } from '../expand.ts'
import { emptySaid, say } from './said.ts'
import { type SaidList, saidOfList } from './said-list.ts'
import { createMac } from './utterance.ts'

const mac = createMac(Buffer.from('key'))
const list = (data: Json): SaidList =>
  saidOfList(expandList('snapshot', data, asSeq(1), { status: null }).list, mac)

const item = (rest: Json): Json => ({ kind: 'assistant_item', item: rest })
const user = (content: string): Json => ({ kind: 'user_input', segments: [{ kind: 'text', content }] })
const message = (text: string): Json =>
  item({ kind: 'message', role: 'assistant', content: [{ kind: 'text', text }] })
const reasoning = (text: string): Json => item({ kind: 'reasoning', text })
const call = (id: string): Json => item({ kind: 'tool_call', call_id: id, name: 'Bash', arguments: '{}' })
const result = (id: string): Json => ({ kind: 'tool_result', item: { kind: 'tool_result', call_id: id } })
const system = (of: Json): Json => ({ kind: 'system_item', item: of })
const done = { kind: 'run_completed', result: 'finished' }
const greeting = { worker_name: 'w' }
const start = { kind: 'segment_start', system_prompt: 'You are', history: [] }

const toldBy = ({ items }: SaidList): string[] =>
  items.map(({ item, told }) => `${item[0]}: ${told.map(t => `${t.index} ${t.event}`).join(', ')}`)

it('names for each thing said the told events that make it, a message with its thinking', () => {
  const entries = [start, user('u'), reasoning('h'), reasoning('i'), message('a'), call('1'), call('2')]
  const more = [result('1'), result('2'), system({ kind: 'interrupt' }), done]
  expect(toldBy(list({ greeting, entries: [...entries, ...more], status: 'idle' }))).toEqual([
    'u: 2 user_message',
    't: 3 thinking_done, 4 thinking_done, 5 text_done',
    'c: 6 tool_call_done',
    'c: 7 tool_call_done',
    'r: 8 tool_result',
    'r: 9 tool_result',
    's: 10 system_item',
  ])
})

it('gives thinking to the calls of a message without text, over a system item, and to nobody else', () => {
  const entries = [
    reasoning('h'),
    system({ kind: 'interrupt' }),
    call('1'),
    reasoning('lost'),
    user('u'),
    call('2'),
  ]
  expect(toldBy(list({ entries, status: 'idle' }))).toEqual([
    's: 1 system_item',
    'c: 0 thinking_done, 2 tool_call_done',
    'u: 4 user_message',
    'c: 5 tool_call_done',
  ])
})

it('leaves out repetitions and empty messages, and keeps two messages two', () => {
  const entries = [message('a'), message(''), message('b'), result('1'), result('1')]
  const { items, said } = list({ entries, status: 'idle' })
  expect(items.map(i => i.item[0])).toEqual(['t', 't', 'r'])
  expect(said.items).toEqual(items.map(i => i.item))
})

it('says what internal workers said of nobody', () => {
  const internal_workers = [{ worker: { session_id: 's' }, entries: [message('child')], status: 'running' }]
  const { items, said } = list({ entries: [message('a')], status: 'running', internal_workers })
  expect(items).toHaveLength(1)
  expect(said.items).toHaveLength(1)
})

it('goes on in the middle of a message with what is in flight', () => {
  const blocks = [
    { kind: 'text', text: 'one ', finished: true },
    { kind: 'text', text: 'tw' },
  ]
  const { said } = list({ entries: [user('u'), message('a')], status: 'running', in_flight: { blocks } })
  say(said, 'text_done', { text: 'two' }, mac)
  say(said, 'turn_end', {}, mac)
  expect(said.items).toEqual(
    list({ entries: [user('u'), message('a'), message('one two')], status: 'idle' }).said.items,
  )
})

it('of a running worker knows where the run began, to unsay it', () => {
  const before = [user('u'), message('a'), done]
  const { said } = list({ entries: [...before, user('v'), user('w')], status: 'running' })
  say(said, 'run_end', { result: 'rolled_back' }, mac)
  expect(said.items).toEqual(list({ entries: before, status: 'idle' }).said.items)
})

it('of a worker at rest knows no run', () => {
  const entries = [user('u'), message('a')]
  const { said } = list({ entries, status: 'idle' })
  expect(said.run).toBeNull()
  say(said, 'run_end', { result: 'rolled_back' }, mac)
  expect(said.items).toHaveLength(2)
})

it('reads what a rewind or a rotation put in place of the list', () => {
  const rewound = expandList('rewind_applied', { entries: [user('u')] }, asSeq(1), { status: 'idle' })
  const entry = {
    ...start,
    history: [{ kind: 'message', role: 'user', content: [{ kind: 'text', text: 'u' }] }],
  }
  const rotated = expandList('segment_rotated', { entry }, asSeq(1), { status: null })
  const said = emptySaid()
  say(said, 'user_message', { segments: [{ kind: 'text', content: 'u' }] }, mac)
  for (const { list: told } of [rewound, rotated])
    expect(saidOfList(told, mac).said.items).toEqual(said.items)
})
