import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createOverlap } from './overlap.ts'

const verdictOn = (text: string, pieces: readonly string[]): number | 'hold' => {
  const overlap = createOverlap(text)
  for (const piece of pieces) {
    const verdict = overlap.take(piece)
    if (verdict !== 'hold') return verdict
  }
  return 'hold'
}

/** How many pieces from the first on the text ends with, at most. */
const ending = (text: string, pieces: readonly string[]): number =>
  pieces.findLastIndex((_, k) => text.endsWith(pieces.slice(0, k + 1).join(''))) + 1

const pieces = (units: readonly string[], length = {}) =>
  fc.array(fc.string({ unit: fc.constantFrom(...units), minLength: 1, maxLength: 5 }), {
    maxLength: 60,
    ...length,
  })

it('without loss: all overlap is found, and as much more as the text ends with', () => {
  for (const units of [['a'], ['a', 'b'], ['a', 'b', ' ', '\n', 'the', 'is']])
    fc.assert(
      fc.property(pieces(units), fc.nat(60), fc.nat(255), (all, at, back) => {
        const n = Math.min(at, all.length)
        const from = Math.max(0, n - back)
        fc.pre(from < n)
        const text = all.slice(0, n).join('')
        const stream = all.slice(from)
        const verdict = verdictOn(text, stream)
        // Held to the end of the block: its done heals.
        if (verdict === 'hold') return
        expect(verdict).toBe(ending(text, stream))
        expect(verdict).toBeGreaterThanOrEqual(n - from)
      }),
    )
})

it('without overlap: none is found but what the text ends with', () => {
  // Three pieces of five characters are never two witnesses.
  const few = pieces(['a', 'b'], { minLength: 1, maxLength: 3 })
  fc.assert(
    fc.property(pieces(['a', 'b']), few, (before, after) => {
      const text = before.join('')
      expect(verdictOn(text, [...after, 'c'])).toBe(ending(text, after))
    }),
  )
})

const numbered = Array.from({ length: 700 }, (_, n) => `${String(n).padStart(6, '0')} xx\n`)

it('with loss: overlap is found if two runs of it arrive, or its end does', () => {
  const loss = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 255, maxLength: 255 })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 400 }), fc.nat(255), loss, fc.nat(10), (n, back, dice, rate) => {
      const again = Array.from({ length: Math.min(n, back) }, (_, k) => n - Math.min(n, back) + k)
      const kept = again.filter((_, k) => dice[k]! >= rate)
      const runs = kept.filter((k, index) => kept[index - 1] !== k - 1).length
      const lone = runs === 1 && kept.at(-1) !== n - 1
      const verdict = verdictOn(
        numbered.slice(0, n).join(''),
        [...kept, n].map(k => numbered[k]!),
      )
      expect(verdict).toBe(lone ? 0 : kept.length)
    }),
  )
})

it('settles on a long run that stands once if it had too much of it, and on nothing if it had too little time', () => {
  const text = numbered.slice(0, 400).join('')
  const overlap = createOverlap(text)
  for (let n = 100; n < 356; n++) expect(overlap.take(numbered[n]!)).toBe('hold')
  expect(overlap.settle(true)).toEqual({ overlap: 256, goesOn: text.indexOf(numbered[356]!) })
  expect(overlap.settle(false)).toEqual({ overlap: 0 })
})

it('walks a text of a million characters a few times, not once for each piece', () => {
  for (const [text, piece] of [
    ['a'.repeat(1_000_000), 'a'.repeat(3_000)],
    [`${'a'.repeat(499_999)}b${'a'.repeat(500_000)}`, 'a'.repeat(2_000)],
    ['ab'.repeat(500_000), 'abab'],
    [numbered.join('').repeat(143), numbered[0]!],
  ] as const) {
    const began = performance.now()
    const many = Array.from({ length: 256 }, () => piece)
    expect(verdictOn(text, [...many, 'c'])).not.toBe('hold')
    // A walk takes some milliseconds here: 256 of them would take a second and more.
    expect(performance.now() - began).toBeLessThan(600)
  }
})
