import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { childrenCpuMs } from './child.ts'
import { nowUs } from './stamp.ts'
import { median } from './stats.ts'

/** Cores that everything else on this machine used, beyond which a figure is measured again. */
const QUIET_CORES = 0.2
const AGAIN_MAX = 3
/** Repetitions of one whole run, so that it stays bounded on a machine that is never quiet. */
let againLeft = 15
const LOOK_MS = 200
/** How long one run waits in all for other programs to be done. */
let patienceMs = 30_000

const busyMs = (): number => {
  try {
    const [, ...fields] = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').trim().split(/\s+/)
    // user nice system idle iowait irq softirq steal
    return fields
      .slice(0, 8)
      .reduce((sum, field, i) => (i === 3 || i === 4 ? sum : sum + Number(field) * 10), 0)
  } catch {
    return Number.NaN
  }
}

const ownMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000 + childrenCpuMs()
}

/** Begins to measure how many cores other programs use; NaN where the system does not tell. */
const watchOthers = (): (() => number) => {
  const busy = busyMs()
  const own = ownMs()
  const started = nowUs()
  return () => Math.max(0, (busyMs() - busy - (ownMs() - own)) / ((nowUs() - started) / 1000))
}

export interface Disturbed {
  /** Cores that other programs used meanwhile. */
  readonly othersCores: number
}

/** What a reader has to know of figures that were taken beside other work; empty where there was little. */
export const disturbance = (made: readonly Disturbed[]): string => {
  const cores = median(made.map(({ othersCores }) => othersCores))
  return cores > QUIET_CORES
    ? ` DISTURBED: other programs used ${cores.toFixed(1)} cores meanwhile (median); latencies say little.`
    : ''
}

const untilQuiet = async (): Promise<void> => {
  for (; patienceMs > 0; patienceMs -= LOOK_MS) {
    const others = watchOthers()
    await delay(LOOK_MS)
    if (!(others() > QUIET_CORES)) return
  }
}

/**
 * Measures again, a few times at most, while the figure is suspicious and other programs were at work: a
 * missed bar then says nothing. The last one counts, with what disturbed it.
 */
export const inPeace = async <T extends object>(
  measure: () => Promise<T>,
  suspicious: (made: T) => boolean,
): Promise<T & Disturbed> => {
  for (let again = 0; ; again += 1) {
    await untilQuiet()
    const others = watchOthers()
    const made = { ...(await measure()), othersCores: others() }
    if (!suspicious(made) || !(made.othersCores > QUIET_CORES) || again === AGAIN_MAX || againLeft === 0)
      return made
    againLeft -= 1
  }
}
