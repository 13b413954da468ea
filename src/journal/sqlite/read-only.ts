import { join } from 'node:path'
import type Database from 'better-sqlite3'
import { drizzle } from 'drizzle-orm/better-sqlite3'
import { ShojiError } from '../../lib/error.ts'
import { asSeq, type Seq, type StreamId } from '../entry.ts'
import type { Generation, Journal, JournalStats, StreamRecord } from '../journal.ts'
import { failureOf } from './failure.ts'
import { fileBytes, JOURNAL_FILE, type Keys, readOpened, readStreams } from './open-file.ts'
import { createReader, openReading, type Reads } from './reader.ts'

/** A journal that somebody else may be writing: each call sees what is committed by then. */
export interface JournalReadOnly extends Reads, Pick<Journal, 'streams'> {
  readonly keys: Keys
  readonly generations: readonly Generation[]
  readonly head: Seq
  stats(): Promise<
    Pick<JournalStats, 'entries' | 'streams' | 'fileBytes' | 'walBytes' | 'head' | 'quarantined'>
  >
  /** For checks of the file itself. */
  readonly database: Database.Database
  close(): void
}

/**
 * Opens a journal for reading, beside a running server or alone; it takes no lock and opens no generation.
 * Throws `data_dir_unusable` where there is none, `journal_newer` or `journal_damaged`.
 */
export const openJournalReadOnly = (dataDir: string): JournalReadOnly => {
  let database: Database.Database | undefined
  try {
    const path = join(dataDir, JOURNAL_FILE)
    database = openReading(path)
    const { keys, generations, last } = readOpened(database)
    const newest = database.prepare<[], number | null>('SELECT max(seq) FROM entries').pluck()
    const deleted = database
      .prepare<[number], number>('SELECT last_deleted FROM streams WHERE id = ?')
      .pluck()
    const head = (): Seq => asSeq(Math.max(last, newest.get() ?? 0))
    const reader = createReader(database, {
      head,
      lastDeleted: (stream: StreamId) => asSeq(deleted.get(stream) ?? 0),
      damaged: () => undefined,
    })
    const db = drizzle(database)
    return {
      ...reader,
      keys,
      generations,
      get head() {
        return head()
      },
      stats: async () => ({
        ...(await reader.totals()),
        streams: readStreams(db).length,
        fileBytes: fileBytes(path),
        walBytes: fileBytes(`${path}-wal`),
        head: head(),
      }),
      streams: async (): Promise<readonly StreamRecord[]> => readStreams(db),
    }
  } catch (error) {
    database?.close()
    if (error instanceof ShojiError) throw error
    const { code, cause } = failureOf(error)
    throw new ShojiError(
      code === 'journal_unavailable' ? 'data_dir_unusable' : code,
      `the journal cannot be read: ${cause}`,
      { cause: error },
    )
  }
}
