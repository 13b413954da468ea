/**
 * When a fresh snapshot should be fetched beside a connection.
 *
 * | happening \ state                       | `none`   | `soon` (due at a time)  | `due`            |
 * |-----------------------------------------|----------|-------------------------|------------------|
 * | begun running, or followed; sign of loss| `due`    | `due`                   | `due`            |
 * | both ran when a resume was proven       | `due`    | `due`                   | `due`            |
 * | `status` leaves running (events-ws)     | `due`    | `due`                   | `due`            |
 * | compacted, error or system item at rest (events-ws) | `soon` | `soon`        | `due`            |
 * | 2 s later                               | –        | `due`                   | –                |
 * | compared                                | `none`   | `none`                  | `none`           |
 *
 * At rest is `status idle`, or 2 s without an event outside a run.
 */
const REST_MS = 2_000

export interface ResyncNeed {
  state: 'none' | 'soon' | 'due'
  /** Time of the last event, in milliseconds since the epoch. */
  lastMs: number
  soonAtMs: number
  /** Moves with every event. */
  version: number
}

export const noResyncNeed = (): ResyncNeed => ({ state: 'none', lastMs: 0, soonAtMs: 0, version: 0 })

export const needNow = (need: ResyncNeed): void => {
  need.state = 'due'
}

export function needSoon(need: ResyncNeed, nowMs: number): void {
  if (need.state === 'due') return
  need.state = 'soon'
  need.soonAtMs = nowMs + REST_MS
}

export const settled = (need: ResyncNeed): void => {
  need.state = 'none'
}

/** Due, at rest, and if not yet: when to look again (null: only an event can change it). */
export function weigh(
  need: ResyncNeed,
  status: string | null,
  nowMs: number,
): { due: boolean; idle: boolean; lookAtMs: number | null } {
  if (need.state === 'soon' && nowMs >= need.soonAtMs) need.state = 'due'
  const due = need.state === 'due'
  const restsAtMs = status === 'running' ? null : status === 'idle' ? need.lastMs : need.lastMs + REST_MS
  const idle = restsAtMs !== null && nowMs >= restsAtMs
  if (need.state === 'none' || (due && idle)) return { due, idle, lookAtMs: null }
  const times = [need.state === 'soon' ? need.soonAtMs : null, idle ? null : restsAtMs].filter(
    t => t !== null,
  )
  return { due, idle, lookAtMs: times.length === 0 ? null : Math.max(...times) }
}
