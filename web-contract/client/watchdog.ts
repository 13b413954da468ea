import type { Clock } from './types.ts'

const SILENT_BEATS = 3
/** Finer than a beat, so that silence is noticed within the third beat and not up to one later. */
const TICKS_PER_BEAT = 4

/**
 * Calls `onSilent` once when three beats pass without `fed()`. Counts its own ticks instead of reading the
 * clock: a clock that is set, or a machine that slept, makes it neither deaf nor jumpy.
 */
export function startWatchdog(clock: Clock, beatMs: () => number, onSilent: () => void) {
  let ticks = 0
  let armedMs = 0
  let timer: unknown
  const arm = (): void => {
    armedMs = beatMs() / TICKS_PER_BEAT
    timer = clock.setTimeout(tick, armedMs)
  }
  const tick = (): void => {
    ticks += 1
    if (ticks >= SILENT_BEATS * TICKS_PER_BEAT) onSilent()
    else arm()
  }
  arm()
  return {
    /** Something arrived, which may have named another beat. */
    fed(): void {
      ticks = 0
      if (beatMs() / TICKS_PER_BEAT === armedMs) return
      clock.clearTimeout(timer)
      arm()
    },
    stop: (): void => clock.clearTimeout(timer),
  }
}
