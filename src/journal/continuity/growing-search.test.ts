import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createGrowingSearch, placeOf } from './growing-search.ts'

const letters = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 60 })
const pieces = fc.array(fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 6 }), { maxLength: 12 })

it('finds what native search finds, piece by piece', () => {
  fc.assert(
    fc.property(letters, pieces, (text, parts) => {
      const search = createGrowingSearch(text)
      let all = ''
      for (const part of parts) {
        const place = text.indexOf(all + part)
        const found = search.grow(part)
        if (place < 0) {
          expect(found).toBe('absent')
          continue
        }
        all += part
        expect(found).toBe(place + all.length === text.length ? 'end' : 'inside')
        expect([search.place, search.length]).toEqual([place, all.length])
      }
    }),
  )
})

it('knows the longest beginning that the text ends with, among the lengths that are asked for', () => {
  fc.assert(
    fc.property(letters, pieces, (text, parts) => {
      const search = createGrowingSearch(text)
      const lengths: number[] = []
      let all = ''
      for (const part of parts) {
        if (search.grow(part) === 'absent') continue
        all += part
        if (all !== '') lengths.push(all.length)
      }
      const expected = Math.max(0, ...lengths.filter(length => text.endsWith(all.slice(0, length))))
      expect(search.tail(lengths)).toBe(expected)
    }),
  )
})

it('finds a piece from a place on', () => {
  fc.assert(
    fc.property(letters, letters, fc.nat(60), (text, piece, from) => {
      fc.pre(from <= text.length)
      expect(placeOf(text, piece.slice(0, 6), from)).toBe(text.indexOf(piece.slice(0, 6), from))
    }),
  )
})
