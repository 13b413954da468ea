import { expect, test } from 'vitest'
import { backoffMs } from './backoff.ts'

const limits = { baseMs: 250, maxMs: 30_000 }

test('the ceiling doubles with each failure, from a quarter of a second to thirty', () => {
  const almostOne = () => 1
  expect([0, 1, 2, 6, 7, 8, 2_000].map(attempt => backoffMs(attempt, almostOne, limits))).toEqual([
    250, 500, 1_000, 16_000, 30_000, 30_000, 30_000,
  ])
})

test('the jitter is full: the wait can be anything below the ceiling', () => {
  expect(backoffMs(3, () => 0, limits)).toBe(0)
  expect(backoffMs(3, () => 0.5, limits)).toBe(1_000)
})
