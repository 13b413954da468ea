import { expect, it } from 'vitest'
import type { Json } from '../../lib/json.ts'
import {
  appendProse,
  call,
  createMac,
  HEAD_CHARS,
  joinProse,
  MAC_CHARS,
  NO_PROSE,
  notificationMessage,
  proseDigest,
  proseOf,
  result,
  resultOwner,
  systemItem,
  userInput,
} from './utterance.ts'

const mac = createMac(Buffer.from('key'))
const text = (content: string): Json => ({ kind: 'text', content })
const input = (...segments: Json[]): string => userInput(mac, { segments })
const callOf = (args: unknown, id = 'c1', name = 'Bash'): string => call(mac, { id, name, arguments: args })

it('a digest is 64 bits under a key', () => {
  expect(mac('a')).toMatch(/^[0-9a-f]{16}$/)
  expect(mac('a')).toHaveLength(MAC_CHARS)
  expect(mac('a')).toBe(createMac(Buffer.from('key'))('a'))
  expect(mac('a')).not.toBe(mac('b'))
  expect(mac('a')).not.toBe(createMac(Buffer.from('other'))('a'))
})

it('user input is the same with blanks around its texts, and another with another word or segment', () => {
  expect(input(text('  Look at '), { kind: 'file_ref', path: 'a' }, text(' '))).toBe(
    input(text('Look at'), { path: 'a', kind: 'file_ref' }),
  )
  expect(input(text('one'))).not.toBe(input(text('two')))
  expect(input(text('one'), text('two'))).not.toBe(input(text('one two')))
  expect(input({ kind: 'file_ref', path: 'a' })).not.toBe(input({ kind: 'file_ref', path: 'b' }))
})

it('a call is its id, its name and its arguments however they are written', () => {
  expect(callOf('{"a":1,"b":{"c":[true,null],"d":"\\u0073k-"}}')).toBe(
    callOf('{ "b": {"d": "sk-", "c": [true, null]}, "a": 1 }'),
  )
  for (const nothing of ['null', '{}', '', '{"cut', undefined, null, {}])
    expect(callOf(nothing), String(nothing)).toBe(callOf('{}'))
  expect(callOf('{"a":9007199254740993}')).not.toBe(callOf('{"a":9007199254740992}'))
  expect(callOf('[1,2]')).not.toBe(callOf('[2,1]'))
  expect(callOf('{}', 'c2')).not.toBe(callOf('{}'))
  expect(callOf('{}', 'c1', 'Read')).not.toBe(callOf('{}'))
})

it('the parts of a call are told apart: its name, and its arguments', () => {
  const digits = 1 + MAC_CHARS
  expect(callOf('{"a":1}').slice(0, digits)).toBe(callOf('{"a":2}').slice(0, digits))
  expect(callOf('{"a":1}').slice(digits)).toBe(callOf('{"a":1}', 'c2').slice(digits))
})

it('arguments nested beyond reason are compared to a depth', () => {
  const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`
  for (const depth of [5_000, 200_000]) expect(callOf(nested(depth))).toBe(callOf(nested(depth)))
  expect(callOf(nested(5_000))).not.toBe(callOf('{}'))
  expect(callOf(nested(50))).not.toBe(callOf(nested(51)))
})

it('a result with no output is one with an empty output, and without an error is no error', () => {
  const of = (data: Json): string => result(mac, { id: 'c1', summary: 's', ...data })
  expect(of({})).toBe(of({ output: '', is_error: false }))
  expect(of({})).not.toBe(of({ is_error: true }))
  expect(of({})).not.toBe(of({ output: 'x' }))
  expect(of({ summary: 'a', output: 'b' })).not.toBe(of({ summary: 'ab' }))
  expect(of({}).startsWith(resultOwner(mac, { id: 'c1' }))).toBe(true)
  expect(of({}).startsWith(resultOwner(mac, { id: 'c2' }))).toBe(false)
})

it('the same digest never stands for two kinds of thing', () => {
  const same = [systemItem(mac, {}), notificationMessage(mac, {}), userInput(mac, {}), callOf({}, '', '')]
  expect(new Set(same.map(item => item.slice(1, 1 + MAC_CHARS))).size).toBe(same.length)
})

it('text is the same however it comes in blocks, and bounded', () => {
  const blocks = ['Hello', ' ', 'world'].reduce(joinProse, NO_PROSE)
  expect(blocks).toEqual(proseOf('Hello world'))
  expect(appendProse(proseOf('Hello '), proseOf('world'))).toEqual(blocks)
  const long = 'x'.repeat(HEAD_CHARS)
  const longer = joinProse(joinProse(proseOf(long), 'y'.repeat(1_000)), 'z')
  expect(longer.head).toHaveLength(HEAD_CHARS)
  expect(longer).toEqual(proseOf(`${long}${'y'.repeat(1_000)}z`))
  expect(proseDigest(mac, longer)).not.toBe(proseDigest(mac, proseOf(long)))
})
