/**
 * What may be deleted, and how, on the writer's connection.
 *
 * A cut deletes everything of one stream up to a position. Positions come from `cuts` alone: at them no block
 * is open, so no block is ever left without its beginning. `last_deleted` moves to the whole cut in the first
 * slice, before the rows behind it are gone, and readers never look behind it: a cut that a crash leaves
 * half done is seen by nobody and finished by the next plan.
 *
 * Age is absolute: what is older goes, the newest list-replacing entry included, and of a stream in which all
 * is older only `last_deleted` stays. Bytes and count delete the oldest of all streams first, and leave in
 * each the newest list-replacing entry and everything after it, since that is the conversation on screen.
 */
import type { Database } from 'better-sqlite3'
import type { RetentionRules } from '../journal.ts'
import type { Cut, Requests } from './protocol.ts'

/** What a row takes in the file beside its texts: its other columns and its place in the indexes. */
const ROW_OVERHEAD_BYTES = 128

/** Candidates that one plan looks at; the next one goes on. */
const CANDIDATES_MAX = 10_000

interface StreamRow {
  readonly id: number
  readonly lastDeleted: number
  readonly entries: number
  readonly bytes: number
  readonly deletedEntries: number
  readonly deletedBytes: number
}

interface Candidate {
  readonly stream: number
  readonly seq: number
  readonly totalEntries: number
  readonly totalBytes: number
}

export interface Retention {
  plan(by: 'age' | 'size', rules: RetentionRules, now: number): Cut[]
  cut(cut: Cut, rows: number): { deleted: number; done: boolean }
  forget(request: Requests['forget']['request']): void
  shrink(pages: number): number
}

const weight = (entries: number, bytes: number): number => bytes + entries * ROW_OVERHEAD_BYTES

export const retentionStatements = (database: Database): Retention => {
  const streamsOf = database.prepare<{ runtime: string | null }, StreamRow>(
    `SELECT id, last_deleted AS lastDeleted, entries, bytes, total_entries - entries AS deletedEntries,
       total_bytes - bytes AS deletedBytes
     FROM streams WHERE @runtime IS NULL OR runtime = @runtime`,
  )
  const oldest = database.prepare<[number], number>('SELECT min(seq) FROM entries WHERE stream = ?').pluck()
  const newest = database.prepare<[number], { seq: number; time: number }>(
    'SELECT seq, time FROM entries WHERE stream = ? ORDER BY seq DESC LIMIT 1',
  )
  const agedCut = database
    .prepare<[number, number, number], number>(
      'SELECT max(seq) FROM cuts WHERE stream = ? AND seq > ? AND time < ?',
    )
    .pluck()
  const newestReplacing = database
    .prepare<[number], number>('SELECT max(seq) FROM entries WHERE stream = ? AND replaces = 1')
    .pluck()
  const candidates = database.prepare<[number, number, number], Candidate>(
    `SELECT stream, seq, total_entries AS totalEntries, total_bytes AS totalBytes
     FROM cuts WHERE stream = ? AND seq > ? AND seq < ? ORDER BY seq LIMIT ${CANDIDATES_MAX}`,
  )
  const advance = database.prepare('UPDATE streams SET last_deleted = max(last_deleted, ?) WHERE id = ?')
  const dropCuts = database.prepare('DELETE FROM cuts WHERE stream = ? AND seq <= ?')
  const dropCheckpoints = database.prepare('DELETE FROM checkpoints WHERE stream = ? AND seq < ?')
  const slice = database.prepare<
    [number, number, number],
    { last: number | null; entries: number; bytes: number }
  >(
    `SELECT max(seq) AS last, count(*) AS entries, coalesce(sum(bytes), 0) AS bytes FROM (
       SELECT seq, bytes FROM entries WHERE stream = ? AND seq <= ? ORDER BY seq LIMIT ?)`,
  )
  const drop = database.prepare('DELETE FROM entries WHERE stream = ? AND seq <= ?')
  const shrinkStream = database.prepare(
    'UPDATE streams SET entries = entries - ?, bytes = bytes - ? WHERE id = ?',
  )

  const byAge = (rules: RetentionRules, now: number): Cut[] => {
    const cuts: Cut[] = []
    const before = rules.maxAgeMs === undefined ? Number.NEGATIVE_INFINITY : now - rules.maxAgeMs
    for (const stream of streamsOf.all({ runtime: rules.runtime ?? null })) {
      const first = stream.entries === 0 ? null : (oldest.get(stream.id) ?? null)
      if (first === null) continue
      const last = newest.get(stream.id)
      if (last !== undefined && last.time < before) {
        cuts.push({ stream: stream.id, upTo: last.seq, erase: true })
        continue
      }
      const aged = agedCut.get(stream.id, stream.lastDeleted, before) ?? null
      // A cut that an earlier process left half done is finished here.
      const upTo = aged ?? (first <= stream.lastDeleted ? stream.lastDeleted : null)
      if (upTo !== null) cuts.push({ stream: stream.id, upTo, erase: false })
    }
    return cuts
  }

  const bySize = (rules: RetentionRules): Cut[] => {
    const streams = streamsOf.all({ runtime: rules.runtime ?? null })
    let excessEntries = -(rules.maxEntries ?? Number.POSITIVE_INFINITY)
    let excessBytes = -(rules.maxBytes ?? Number.POSITIVE_INFINITY)
    const freed = new Map<number, { entries: number; bytes: number }>()
    for (const stream of streams) {
      excessEntries += stream.entries
      excessBytes += weight(stream.entries, stream.bytes)
      freed.set(stream.id, { entries: stream.deletedEntries, bytes: stream.deletedBytes })
    }
    if (excessEntries <= 0 && excessBytes <= 0) return []
    const found = streams.flatMap(stream => {
      const replacing = newestReplacing.get(stream.id) ?? null
      return replacing === null ? [] : candidates.all(stream.id, stream.lastDeleted, replacing)
    })
    found.sort((a, b) => a.seq - b.seq)
    const cuts = new Map<number, Cut>()
    for (const { stream, seq, totalEntries, totalBytes } of found) {
      if (excessEntries <= 0 && excessBytes <= 0) break
      const sum = freed.get(stream)
      if (sum === undefined) continue
      excessEntries -= totalEntries - sum.entries
      excessBytes -= weight(totalEntries - sum.entries, totalBytes - sum.bytes)
      freed.set(stream, { entries: totalEntries, bytes: totalBytes })
      cuts.set(stream, { stream, upTo: seq, erase: false })
    }
    return [...cuts.values()]
  }

  const cut = database.transaction(({ stream, upTo, erase }: Cut, rows: number) => {
    advance.run(upTo, stream)
    dropCuts.run(stream, upTo)
    dropCheckpoints.run(stream, erase ? upTo + 1 : upTo)
    const part = slice.get(stream, upTo, rows)
    if (part === undefined || part.last === null) return { deleted: 0, done: true }
    drop.run(stream, part.last)
    shrinkStream.run(part.entries, part.bytes, stream)
    return { deleted: part.entries, done: part.entries < rows }
  })

  return {
    plan: (by, rules, now) => (by === 'age' ? byAge(rules, now) : bySize(rules)),
    cut: (request, rows) => cut.immediate(request, rows),
    forget: request => {
      if ('stream' in request) {
        database.prepare('DELETE FROM quarantine WHERE stream = ?').run(request.stream)
        database.prepare('DELETE FROM positions WHERE stream = ?').run(request.stream)
      } else {
        database
          .prepare(
            `DELETE FROM quarantine WHERE time < @before
               AND (@runtime IS NULL OR stream IN (SELECT id FROM streams WHERE runtime = @runtime))`,
          )
          .run({ before: request.before, runtime: request.runtime })
      }
    },
    shrink: pages => {
      database.pragma(`incremental_vacuum(${pages})`)
      return Number(database.pragma('freelist_count', { simple: true }))
    },
  }
}
