import fc from 'fast-check'
import { expect, it } from 'vitest'
import { nestsTooDeep, parseJson, stringifyJson } from './json.ts'

it('keeps integers beyond 2^53 exact, there and back', () => {
  const text =
    '{"n":18446744073709551615,"m":[9007199254740993,-12345678901234567890],"s":"12345678901234567"}'
  expect(stringifyJson(parseJson(text))).toBe(text)
})

it('does not count for seconds on a number of a million digits', () => {
  expect(parseJson(`{"n":${'9'.repeat(1_000_000)}}`)).toEqual({ n: Number.POSITIVE_INFINITY })
})

it('knows a text that nests too deep, and brackets in texts are no nesting', () => {
  expect(nestsTooDeep('['.repeat(100_000))).toBe(true)
  expect(nestsTooDeep(`${'{"a":'.repeat(600)}1${'}'.repeat(600)}`)).toBe(true)
  expect(nestsTooDeep(JSON.stringify({ text: '[{'.repeat(100_000), odd: '"\\"[[[' }))).toBe(false)
  fc.assert(fc.property(fc.json({ maxDepth: 8 }), text => !nestsTooDeep(text)))
})
