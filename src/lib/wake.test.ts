import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { VirtualClock } from '../../test/_support/virtual-clock.ts'
import { Wake } from './wake.ts'

test('a sleeper wakes by time, by call and by signal', async () => {
  const clock = new VirtualClock()
  const wake = new Wake(clock)
  const control = new AbortController()
  const byTime = wake.sleep(100, control.signal)
  await clock.advance(100)
  await byTime
  const byCall = wake.sleep(100, control.signal)
  wake.call()
  await byCall
  const bySignal = wake.sleep(Number.POSITIVE_INFINITY, control.signal)
  control.abort()
  await bySignal
  expect(clock.pending).toBe(0)
  expect(getEventListeners(control.signal, 'abort')).toHaveLength(0)
})

test('a call that came before the sleep ends it, once, unless it was forgotten', async () => {
  const clock = new VirtualClock()
  const wake = new Wake(clock)
  const { signal } = new AbortController()
  wake.call()
  await wake.sleep(100, signal)
  wake.call()
  wake.clear()
  const slept = wake.sleep(100, signal)
  expect(clock.waits).toEqual([100])
  await clock.advance(100)
  await slept
})
