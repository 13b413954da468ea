import Database from 'better-sqlite3'
import { asSeq, asStreamId, type Entry, type Key, type Seq, type StreamId } from '../entry.ts'
import type { Checkpoint, Journal, Page, PageLimits, QuarantinedFrame } from '../journal.ts'
import { asShojiError } from './failure.ts'
import { mergeSeqs } from './merge.ts'
import { READ_COLUMNS, type ReadRow, rowBytes, toEntry } from './rows.ts'

/** What a reader has to know of the writing side at the moment it reads. */
export interface ReadBounds {
  /** Nothing after it is read. */
  readonly head: () => Seq
  /** Nothing of the stream up to it is read, be it gone already or not. */
  readonly lastDeleted: (stream: StreamId) => Seq
  /** The file turned out to be damaged. */
  readonly damaged: () => void
}

export type Reads = Pick<
  Journal,
  | 'readAfter'
  | 'readEntry'
  | 'readMarks'
  | 'readItem'
  | 'readReplacing'
  | 'readCheckpoint'
  | 'readPosition'
  | 'readQuarantine'
>

export interface Reader extends Reads {
  readonly database: Database.Database
  /** 0 where nothing of the stream is stored. */
  newest(stream: StreamId): Promise<Seq>
  totals(): Promise<{ entries: number; quarantined: number }>
  close(): void
}

/** A connection that cannot write. */
export const openReading = (path: string): Database.Database => {
  const database = new Database(path, { readonly: true, fileMustExist: true, timeout: 1000 })
  database.pragma('cache_size = -32768')
  return database
}

/** Takes rows until one of the limits is reached, the first whatever its size. */
const takeWithin = (rows: Iterable<ReadRow>, limits: PageLimits): { entries: Entry[]; full: boolean } => {
  const entries: Entry[] = []
  let bytes = 0
  for (const row of rows) {
    bytes += rowBytes(row)
    if (entries.length > 0 && bytes > limits.maxBytes) return { entries, full: true }
    entries.push(toEntry(row))
    if (entries.length >= limits.maxRows) return { entries, full: true }
  }
  return { entries, full: false }
}

/**
 * Prepared reads over `database`. Each runs to its end in one synchronous call, so that its read transaction
 * lasts no longer than a page and no WAL checkpoint has to wait for one.
 */
export const createReader = (database: Database.Database, bounds: ReadBounds): Reader => {
  const rows = (where: string) =>
    database.prepare<number[], ReadRow>(`SELECT ${READ_COLUMNS} FROM entries ${where}`).raw()
  const bySeq = rows('WHERE seq = ?')
  const ofStream = rows('INDEXED BY entries_stream WHERE stream = ? AND seq > ? AND seq <= ? ORDER BY seq')
  const seqsOfStream = database
    .prepare<[number, number, number, number], number>(
      `SELECT seq FROM entries INDEXED BY entries_stream
       WHERE stream = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
    )
    .pluck()
  const marks = rows(
    `INDEXED BY entries_mark WHERE stream = ? AND seq >= ? AND seq < ? AND (mark = 1 OR replaces = 1)
     ORDER BY seq DESC`,
  )
  const ofItem = rows(
    `INDEXED BY entries_item WHERE item_seq = ? AND item_index = ? AND item_seq IS NOT NULL AND stream = ?
     AND seq > ? AND seq <= ? ORDER BY seq`,
  )
  const marksOfItem = rows(
    `INDEXED BY entries_item_mark WHERE item_seq = ? AND item_index = ? AND item_seq IS NOT NULL AND stream = ?
     AND mark = 1 AND seq > ? AND seq <= ? ORDER BY seq`,
  )
  const replacing = rows(
    `INDEXED BY entries_replaces WHERE stream = ? AND replaces = 1 AND seq > ? AND seq <= ?
     ORDER BY seq DESC LIMIT 1`,
  )
  const checkpoint = database.prepare<[number, number], { seq: number; version: number; state: string }>(
    'SELECT seq, version, state FROM checkpoints WHERE stream = ? AND seq <= ? ORDER BY seq DESC LIMIT 1',
  )
  const position = database
    .prepare<[number], string>('SELECT position FROM positions WHERE stream = ?')
    .pluck()
  const newest = database.prepare<[number], number>('SELECT max(seq) FROM entries WHERE stream = ?').pluck()
  const quarantined = database.prepare<
    [number],
    Omit<QuarantinedFrame, 'stream'> & { id: number; stream: number }
  >('SELECT id, stream, time, cause, bytes, body FROM quarantine ORDER BY id DESC LIMIT ?')
  const storedEntries = database.prepare<[], number>('SELECT coalesce(sum(entries), 0) FROM streams').pluck()
  const storedFrames = database.prepare<[], number>('SELECT count(*) FROM quarantine').pluck()
  const begin = database.prepare('BEGIN')
  const commit = database.prepare('COMMIT')

  /** Runs a read; what SQLite throws becomes a rejection with one of our codes. */
  const reading = async <T>(read: () => T): Promise<T> => {
    try {
      return read()
    } catch (error) {
      const shoji = asShojiError(error, 'the journal cannot be read')
      if (shoji.code === 'journal_damaged') bounds.damaged()
      throw shoji
    }
  }

  const clamp = (through: Seq): Seq => asSeq(Math.min(through, bounds.head()))

  const oneStream = (stream: number, after: number, head: Seq, limits: PageLimits): Page => {
    const { entries, full } = takeWithin(ofStream.iterate(stream, after, head), limits)
    return { entries, through: full ? (entries.at(-1)?.seq ?? head) : head, atHead: !full }
  }

  function* rowsOf(seqs: readonly number[]): Generator<ReadRow> {
    for (const seq of seqs) {
      const row = bySeq.get(seq)
      if (row !== undefined) yield row
    }
  }

  const severalStreams = (
    streams: readonly { stream: number; after: number }[],
    head: Seq,
    limits: PageLimits,
  ): Page => {
    const { seqs, exhausted } = mergeSeqs(streams, limits.maxRows, (stream, after, limit) =>
      seqsOfStream.all(stream, after, head, limit),
    )
    const { entries } = takeWithin(rowsOf(seqs), limits)
    const all = exhausted && entries.length === seqs.length
    return { entries, through: all ? head : (entries.at(-1)?.seq ?? head), atHead: all }
  }

  const readAfter = (streams: readonly StreamId[], after: Seq, limits: PageLimits): Page => {
    const head = bounds.head()
    const expired: StreamId[] = []
    const asked = [...new Set(streams)].map(stream => {
      const deleted = bounds.lastDeleted(stream)
      if (deleted <= after) return { stream, after }
      expired.push(stream)
      return { stream, after: deleted }
    })
    // One snapshot for all statements of a page: a row found in the index is there when it is fetched.
    begin.run()
    try {
      const [only] = asked
      const page =
        asked.length === 1 && only !== undefined
          ? oneStream(only.stream, only.after, head, limits)
          : severalStreams(asked, head, limits)
      return expired.length === 0 ? page : { ...page, expired }
    } finally {
      commit.run()
    }
  }

  return {
    database,
    readAfter: (streams, after, limits) => reading(() => readAfter(streams, after, limits)),
    readEntry: seq =>
      reading(() => {
        const row = seq <= bounds.head() ? bySeq.get(seq) : undefined
        return row === undefined || seq <= bounds.lastDeleted(asStreamId(row[1])) ? null : toEntry(row)
      }),
    readMarks: (stream, before, from, limits) =>
      reading(() => {
        const least = Math.max(from, bounds.lastDeleted(stream) + 1)
        const end = Math.min(before, bounds.head() + 1)
        return takeWithin(marks.iterate(stream, least, end), limits).entries
      }),
    readItem: (stream, item: Key, through, limits, which = 'all', after = asSeq(0)) =>
      reading(() => {
        const statement = which === 'marks' ? marksOfItem : ofItem
        const end = clamp(through)
        const from = Math.max(after, bounds.lastDeleted(stream))
        const found = takeWithin(statement.iterate(item.seq, item.index, stream, from, end), limits)
        const last = found.full ? (found.entries.at(-1)?.seq ?? end) : end
        return { entries: found.entries, through: last, atHead: !found.full && end === bounds.head() }
      }),
    readReplacing: (stream, through) =>
      reading(() => {
        const row = replacing.get(stream, bounds.lastDeleted(stream), clamp(through))
        return row === undefined ? null : toEntry(row)
      }),
    readCheckpoint: (stream, through) =>
      reading((): Checkpoint | null => {
        const row = checkpoint.get(stream, clamp(through))
        return row === undefined
          ? null
          : { stream, seq: asSeq(row.seq), version: row.version, state: row.state }
      }),
    readPosition: stream => reading(() => position.get(stream) ?? null),
    readQuarantine: limit =>
      reading(() => quarantined.all(limit).map(row => ({ ...row, stream: asStreamId(row.stream) }))),
    newest: stream => reading(() => asSeq(newest.get(stream) ?? 0)),
    totals: () =>
      reading(() => ({ entries: storedEntries.get() ?? 0, quarantined: storedFrames.get() ?? 0 })),
    close: () => void database.close(),
  }
}
