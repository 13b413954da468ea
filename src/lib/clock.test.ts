import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { systemClock } from './clock.ts'

test('a wait ends by time or by signal, whichever comes first, and leaves no listener', async () => {
  const control = new AbortController()
  await systemClock.after(1, control.signal)
  const long = systemClock.after(3_600_000, control.signal)
  const endless = systemClock.after(Number.POSITIVE_INFINITY, control.signal)
  expect(getEventListeners(control.signal, 'abort')).toHaveLength(2)
  control.abort()
  await Promise.all([long, endless])
  await systemClock.after(3_600_000, control.signal)
  expect(getEventListeners(control.signal, 'abort')).toHaveLength(0)
})
