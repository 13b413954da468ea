import { describe, expect, it } from 'vitest'
import { virtualClock } from './_support/virtual-clock.ts'
import { startWatchdog } from './watchdog.ts'

describe('the watchdog', () => {
  it('barks once, in the third silent beat and not before', () => {
    const clock = virtualClock()
    let barks = 0
    startWatchdog(
      clock,
      () => 1_000,
      () => barks++,
    )
    clock.advance(2_900)
    expect(barks).toBe(0)
    clock.advance(100)
    expect(barks).toBe(1)
    clock.advance(60_000)
    expect(barks).toBe(1)
  })

  it('takes up another beat at once', () => {
    const clock = virtualClock()
    let beatMs = 15_000
    let barks = 0
    const dog = startWatchdog(
      clock,
      () => beatMs,
      () => barks++,
    )
    beatMs = 100
    dog.fed()
    clock.advance(300)
    expect(barks).toBe(1)
  })

  it('is silent once stopped', () => {
    const clock = virtualClock()
    let barks = 0
    const dog = startWatchdog(
      clock,
      () => 100,
      () => barks++,
    )
    dog.stop()
    clock.advance(10_000)
    expect(barks).toBe(0)
  })
})
