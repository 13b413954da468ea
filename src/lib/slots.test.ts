import { expect, test } from 'vitest'
import { Slots } from './slots.ts'

test('no more are in than there are slots, and the others follow in their order', async () => {
  const slots = new Slots(2)
  const { signal } = new AbortController()
  const entered: number[] = []
  const leave: (() => void)[] = []
  const all = [0, 1, 2, 3].map(async n => {
    leave[n] = await slots.take(signal)
    entered.push(n)
  })
  await all[1]
  expect(entered).toEqual([0, 1])
  leave[1]?.()
  leave[1]?.()
  await all[2]
  expect(entered).toEqual([0, 1, 2])
  leave[0]?.()
  await all[3]
  expect(entered).toEqual([0, 1, 2, 3])
})

test('who gives up waiting takes no slot', async () => {
  const slots = new Slots(1)
  const control = new AbortController()
  const { signal } = new AbortController()
  const leave = await slots.take(signal)
  const given = slots.take(control.signal)
  control.abort()
  ;(await given)()
  const next = slots.take(signal)
  leave()
  ;(await next)()
  ;(await slots.take(signal))()
})
