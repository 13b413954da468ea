import { FRAME_BYTES_MAX, LEAF_UNITS_MAX } from '@shoji/web-contract'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { cutLeaves } from './cut.ts'

const rest = (at: string): string => `/rest?at=${at}`

it('returns what is small as it is', () => {
  const value = { a: 'text', b: [1, { c: null }] }
  expect(cutLeaves(value, '/data', rest)).toEqual({ value, cut: [] })
  expect(cutLeaves(value, '/data', rest).value).toBe(value)
})

it('cuts a long leaf at its bound and says how long it was and where the rest is', () => {
  const { value, cut } = cutLeaves({ text: 'x'.repeat(LEAF_UNITS_MAX + 5) }, '/data', rest)
  expect(value.text).toHaveLength(LEAF_UNITS_MAX)
  expect(cut).toEqual([{ at: '/data/text', chars: LEAF_UNITS_MAX + 5, rest: '/rest?at=/data/text' }])
})

it('never leaves half a surrogate pair', () => {
  const { value } = cutLeaves({ text: `${'x'.repeat(LEAF_UNITS_MAX - 1)}😀` }, '', rest)
  expect(value.text).toHaveLength(LEAF_UNITS_MAX - 1)
})

it('keeps any value under the cap of a frame, whatever it holds', () => {
  const worst = fc.constantFrom('\u0000'.repeat(200_000), '語'.repeat(200_000), 'x', '')
  fc.assert(
    fc.property(
      fc.array(fc.oneof(worst, fc.dictionary(fc.string({ maxLength: 300 }), worst)), { maxLength: 8 }),
      fc.nat({ max: 200_000 }),
      (some, many) => {
        const value = { some, many: new Array(many).fill({ kind: 'text', content: '' }) }
        const { value: bounded, cut } = cutLeaves(value, '/data', rest)
        expect(Buffer.byteLength(JSON.stringify(bounded))).toBeLessThan(FRAME_BYTES_MAX - 64 * 1024)
        if (many > 4_000) expect(cut.length).toBeGreaterThan(0)
      },
    ),
    { numRuns: 50 },
  )
})

it('spells odd keys as JSON pointers do', () => {
  const { cut } = cutLeaves({ 'a/b~c': 'x'.repeat(LEAF_UNITS_MAX + 1) }, '', rest)
  expect(cut[0]?.at).toBe('/a~1b~0c')
})
