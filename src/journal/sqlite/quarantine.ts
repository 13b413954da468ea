import type { Database } from 'better-sqlite3'
import type { QuarantinedFrame } from '../journal.ts'

/** What is kept of one rejected frame, in UTF-16 units. */
const QUARANTINE_BODY_UNITS_MAX = 64 * 1024

/** Keeps a rejected frame; while the whole is past its bounds, the oldest go. */
export const keepQuarantined = (
  database: Database,
  frame: QuarantinedFrame,
  limits: { readonly maxFrames: number; readonly maxBytes: number },
): void => {
  const { stream, time, cause, bytes } = frame
  const body = frame.body.slice(0, QUARANTINE_BODY_UNITS_MAX)
  const whole = database.prepare<[], { frames: number; bytes: number }>(
    'SELECT count(*) AS frames, coalesce(sum(kept), 0) AS bytes FROM quarantine',
  )
  const dropOldest = database.prepare('DELETE FROM quarantine WHERE id = (SELECT min(id) FROM quarantine)')
  const keep = database.transaction(() => {
    database
      .prepare('INSERT INTO quarantine (stream, time, cause, bytes, kept, body) VALUES (?, ?, ?, ?, ?, ?)')
      .run(stream, time, cause, bytes, Buffer.byteLength(body), body)
    for (let held = whole.get(); held !== undefined && held.frames > 1; held = whole.get()) {
      if (held.frames <= limits.maxFrames && held.bytes <= limits.maxBytes) break
      dropOldest.run()
    }
  })
  keep.immediate()
}
