import { expect, it } from 'vitest'
import { createLru } from './lru.ts'

it('keeps what is used, forgets what is not, and never holds more than its bound', () => {
  const made: string[] = []
  const lru = createLru<string, string>(2)
  const get = (key: string) =>
    lru.get(key, () => {
      made.push(key)
      return key.toUpperCase()
    })
  expect([get('a'), get('b'), get('a'), get('c'), get('a'), get('b')]).toEqual(['A', 'B', 'A', 'C', 'A', 'B'])
  expect(made).toEqual(['a', 'b', 'c', 'b'])
  expect(lru.size).toBe(2)
})
