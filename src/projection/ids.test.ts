import fc from 'fast-check'
import { expect, it } from 'vitest'
import { asSeq, asStreamId, SEQ_MAX } from '../journal/entry.ts'
import { createIds } from './ids.ts'

const ids = createIds(Buffer.alloc(32, 7))

it('gives every place its own id and finds the way back', () => {
  fc.assert(
    fc.property(
      fc.nat({ max: 2 ** 32 - 1 }),
      fc.maxSafeNat().map(n => n % SEQ_MAX),
      fc.nat({ max: 2 ** 24 - 1 }),
      (stream, seq, index) => {
        const key = { seq: asSeq(seq), index }
        const id = ids.of(asStreamId(stream), key)
        expect(id).toMatch(/^[\w-]{22}$/)
        expect(ids.open(id)).toEqual({ stream, key })
      },
    ),
  )
})

it('takes no foreign text for an id of its own', () => {
  expect(ids.open('')).toBeNull()
  expect(ids.open('A'.repeat(22))).toBeNull()
  expect(createIds(Buffer.alloc(32, 8)).open(ids.of(asStreamId(1), { seq: asSeq(1), index: 0 }))).toBeNull()
})

it('lets plain foreign ids through and replaces the others by stand-ins that tell nothing', () => {
  expect(ids.safe('toolu_01:a.b+c-d')).toBe('toolu_01:a.b+c-d')
  for (const odd of ['', 'a b', '<b>', 'x'.repeat(129), 'é', 'a\n']) {
    expect(ids.safe(odd)).toMatch(/^x-[\w-]{16}$/)
    expect(ids.safe(odd)).toBe(ids.safe(odd))
  }
  expect(ids.safe('a b')).not.toBe(ids.safe('a c'))
})
