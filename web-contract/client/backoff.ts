/** How long to wait before the next attempt. */
const BASE_MS = 500
const CAP_MS = 30_000
/** A server that names a longer wait than this is not believed. */
const FLOOR_CAP_MS = 300_000

/**
 * Full jitter between 0 and a bound that doubles from 0.5 s to 30 s, so that the viewers of a server that
 * went away do not come back as one; never sooner than the server asked (`floorMs`). There is no last attempt.
 */
export function backoffMs(failures: number, random: () => number, floorMs = 0): number {
  const bound = Math.min(CAP_MS, BASE_MS * 2 ** Math.min(failures, 16))
  return Math.max(Math.min(floorMs, FLOOR_CAP_MS), Math.round(random() * bound))
}
