import { setTimeout as delay } from 'node:timers/promises'
import { nowUs } from './stamp.ts'

/** Calls `emit` with the due time of each event, so many a second. Resolves with what it emitted. */
export const pace = async (
  perSecond: number,
  seconds: number,
  emit: (dueUs: number, index: number) => void,
): Promise<{ events: number; elapsedMs: number }> => {
  const total = Math.max(1, Math.round(perSecond * seconds))
  const started = nowUs()
  for (let sent = 0; sent < total; ) {
    const due = Math.min(total, Math.floor(((nowUs() - started) * perSecond) / 1e6))
    for (; sent < due; sent += 1) emit(started + ((sent + 1) * 1e6) / perSecond, sent)
    if (sent < total) await delay(1)
  }
  return { events: total, elapsedMs: (nowUs() - started) / 1000 }
}
