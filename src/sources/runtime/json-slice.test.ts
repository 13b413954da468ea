import fc from 'fast-check'
import { expect, test } from 'vitest'
import { sliceMembers } from './json-slice.ts'

test('members come out as they are written, whatever is between and inside them', () => {
  const text = ` { "a" :\t{"x":"}\\"]{"} ,"b\\u0062": [1, {"c":"]"}],"n":18446744073709551615 , "s":"\\\\" , "t":true}`
  expect([...sliceMembers(text)]).toEqual([
    ['a', '{"x":"}\\"]{"}'],
    ['bb', '[1, {"c":"]"}]'],
    ['n', '18446744073709551615'],
    ['s', '"\\\\"'],
    ['t', 'true'],
  ])
})

test('of a name that comes twice the last value counts, as for JSON.parse', () => {
  expect(sliceMembers('{"a":1,"a":2}').get('a')).toBe('2')
})

test('the slices of any object parse to its members', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.integer({ min: 0, max: 3 }),
      (object, indent) => {
        const slices = sliceMembers(JSON.stringify(object, null, indent))
        const parsed = [...slices].map(([name, text]) => [name, JSON.parse(text)])
        expect(parsed).toEqual(Object.entries(JSON.parse(JSON.stringify(object))))
      },
    ),
  )
})
