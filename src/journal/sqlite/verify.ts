import type Database from 'better-sqlite3'
import { failureOf } from './failure.ts'
import { openJournalReadOnly } from './read-only.ts'

export interface Verification {
  readonly ok: boolean
  readonly entries: number
  readonly streams: number
  /** One line a finding, at most 100. */
  readonly problems: readonly string[]
}

const PROBLEMS_MAX = 100

/** Each names rows that must not exist. */
const INVARIANTS: readonly { readonly what: string; readonly sql: string }[] = [
  {
    what: 'an entry has no valid position',
    sql: 'SELECT seq AS at FROM entries WHERE seq < 1 OR seq >= 1 << 48',
  },
  {
    what: 'an entry belongs to no stream',
    sql: 'SELECT seq AS at FROM entries WHERE stream NOT IN (SELECT id FROM streams)',
  },
  {
    what: 'an entry is of a later incarnation than its stream',
    sql: `SELECT seq AS at FROM entries JOIN streams ON id = stream WHERE entries.incarnation > streams.incarnation`,
  },
  {
    what: 'a context is not an object',
    sql: `SELECT seq AS at FROM entries WHERE NOT json_valid(context) OR json_type(context) <> 'object'`,
  },
  {
    what: 'an item lies behind the entry that touches it',
    sql: 'SELECT seq AS at FROM entries WHERE item_seq IS NOT NULL AND (item_seq > seq OR item_index < 0)',
  },
  {
    what: 'the columns of an entry do not say what its context says',
    sql: `SELECT seq AS at FROM entries WHERE json_valid(context) AND (
        item_seq IS NOT json_extract(context, '$.item.seq')
        OR item_index IS NOT json_extract(context, '$.item.index')
        OR replaces <> coalesce(json_extract(context, '$.replaces'), 0))`,
  },
  {
    what: 'the size of an entry is not what is stored',
    sql: 'SELECT seq AS at FROM entries WHERE bytes <> octet_length(payload) + octet_length(context)',
  },
  {
    what: "a stream's sums are not those of its entries",
    sql: `SELECT id AS at FROM streams LEFT JOIN (
        SELECT stream, count(*) AS n, sum(bytes) AS size FROM entries GROUP BY stream) ON stream = id
      WHERE entries <> coalesce(n, 0) OR bytes <> coalesce(size, 0)`,
  },
  {
    what: 'a checkpoint is of a stream that does not exist, or no JSON',
    sql: 'SELECT seq AS at FROM checkpoints WHERE stream NOT IN (SELECT id FROM streams) OR NOT json_valid(state)',
  },
  {
    what: 'generations go backward',
    sql: `SELECT first AS at FROM (SELECT first, lag(first) OVER (ORDER BY ordinal) AS before FROM generations)
      WHERE first < before OR first < 1`,
  },
  {
    what: 'an entry lies before every generation',
    sql: 'SELECT seq AS at FROM entries WHERE seq < (SELECT min(first) FROM generations) LIMIT 1',
  },
]

const integrity = (database: Database.Database): string[] =>
  database
    .prepare<[], string>(`PRAGMA integrity_check(${PROBLEMS_MAX})`)
    .pluck()
    .all()
    .filter(line => line !== 'ok')

/**
 * Checks the whole file and what must hold of its rows. It reads everything and holds one snapshot while it
 * does, so the WAL of a running server grows meanwhile. Throws only where the journal cannot be opened.
 */
export const verifyJournal = (dataDir: string): Verification => {
  const journal = openJournalReadOnly(dataDir)
  const problems: string[] = []
  const check = (what: string, find: () => string[]): void => {
    try {
      problems.push(...find())
    } catch (error) {
      problems.push(`${what}: ${failureOf(error).cause}`)
    }
  }
  let found = { entries: 0, streams: 0 }
  try {
    const { database } = journal
    check('the file cannot be read', () => integrity(database))
    for (const { what, sql } of INVARIANTS)
      check(what, () =>
        database
          .prepare<[], number>(`${sql}${sql.includes('LIMIT') ? '' : ' LIMIT 10'}`)
          .pluck()
          .all()
          .map(at => `${what} (${at})`),
      )
    check('the file cannot be counted', () => {
      found =
        database
          .prepare<[], typeof found>(
            'SELECT (SELECT count(*) FROM entries) AS entries, (SELECT count(*) FROM streams) AS streams',
          )
          .get() ?? found
      return []
    })
  } finally {
    journal.close()
  }
  return { ok: problems.length === 0, ...found, problems: problems.slice(0, PROBLEMS_MAX) }
}
