import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { asc, desc, max, notInArray } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/better-sqlite3'
import { migrate } from 'drizzle-orm/better-sqlite3/migrator'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import type { BaseSQLiteDatabase } from 'drizzle-orm/sqlite-core'
import { ShojiError } from '../../lib/error.ts'
import { asSeq, asStreamId, type Seq } from '../entry.ts'
import type { Generation, StreamRecord } from '../journal.ts'
import { failureOf } from './failure.ts'
import { createPrivateFile } from './lock.ts'
import { setDurable } from './pragmas.ts'
import { checkpoints, cuts, entries, generations, meta, streams } from './schema.ts'

export const JOURNAL_FILE = 'journal.db'

/** Process starts that cursors may name; older ones answer `cursor_unknown`. */
const GENERATIONS_MAX = 4096

/** The database or a transaction on it. */
type Db = BaseSQLiteDatabase<'sync', unknown>

export type RandomBytes = (size: number) => Buffer

export interface Keys {
  readonly cursor: Buffer
  readonly id: Buffer
}

/** What a start finds in the file. */
export interface Opened {
  readonly keys: Keys
  readonly generations: readonly Generation[]
  readonly streams: readonly StreamRecord[]
  /** The greatest position that was ever used. */
  readonly last: Seq
}

export const fileBytes = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0

/** Makes the directory with mode 0700 where there is none; one that exists keeps what its owner chose. */
export const ensureDataDir = (dataDir: string): void => {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new ShojiError('data_dir_unusable', 'the data directory cannot be made', { cause: error })
  }
}

/** The generated migrations lie at the root of the package, above both the sources and the build. */
const migrationsFolder = (): string => {
  for (let at = dirname(fileURLToPath(import.meta.url)); ; at = dirname(at)) {
    const folder = join(at, 'migrations')
    if (existsSync(join(folder, 'meta', '_journal.json'))) return folder
    if (dirname(at) === at) throw new ShojiError('internal', 'the migrations are not installed')
  }
}

/** Refuses a file whose last migration this build does not know: an older server must not write to it. */
const refuseNewer = (database: Database.Database, folder: string): void => {
  const known = readMigrationFiles({ migrationsFolder: folder }).at(-1)?.folderMillis ?? 0
  const table = database
    .prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '__drizzle_migrations'")
    .get()
  if (table === undefined) return
  const applied = database
    .prepare<[], number>('SELECT max(created_at) FROM __drizzle_migrations')
    .pluck()
    .get()
  if (Number(applied ?? 0) > known)
    throw new ShojiError('journal_newer', 'the journal was written by a newer release', {
      facts: { applied: Number(applied), known },
    })
}

const readKeys = (db: Db): Partial<Record<string, Buffer>> =>
  Object.fromEntries(
    db
      .select()
      .from(meta)
      .all()
      .map(row => [row.name, row.value]),
  )

const ensureKeys = (db: Db, random: RandomBytes): Keys => {
  const stored = readKeys(db)
  const key = (name: string, size: number): Buffer => {
    const found = stored[name]
    if (found !== undefined) return found
    const made = random(size)
    db.insert(meta).values({ name, value: made }).run()
    return made
  }
  return { cursor: key('cursor_key', 16), id: key('id_key', 32) }
}

const readLast = (db: Db): Seq => {
  const greatest = [
    db
      .select({ n: max(entries.seq) })
      .from(entries)
      .get()?.n,
    db
      .select({ n: max(checkpoints.seq) })
      .from(checkpoints)
      .get()?.n,
    db
      .select({ n: max(cuts.seq) })
      .from(cuts)
      .get()?.n,
    db
      .select({ n: max(streams.lastDeleted) })
      .from(streams)
      .get()?.n,
    (db
      .select({ n: max(generations.first) })
      .from(generations)
      .get()?.n ?? 1) - 1,
  ]
  return asSeq(Math.max(0, ...greatest.map(n => n ?? 0)))
}

const openGeneration = (db: Db, first: Seq, now: number, random: RandomBytes): void => {
  for (;;) {
    const id = random(4).readUInt32BE(0)
    if (
      db.insert(generations).values({ id, first, time: now }).onConflictDoNothing().returning().all()
        .length === 1
    )
      break
  }
  const kept = db
    .select({ ordinal: generations.ordinal })
    .from(generations)
    .orderBy(desc(generations.ordinal))
    .limit(GENERATIONS_MAX)
  db.delete(generations).where(notInArray(generations.ordinal, kept)).run()
}

const readGenerations = (db: Db): Generation[] =>
  db
    .select({ id: generations.id, first: generations.first })
    .from(generations)
    .orderBy(asc(generations.ordinal))
    .all()
    .map(row => ({ id: row.id, first: asSeq(row.first) }))

export const readStreams = (db: Db): StreamRecord[] =>
  db
    .select()
    .from(streams)
    .orderBy(asc(streams.id))
    .all()
    .map(row => ({
      id: asStreamId(row.id),
      source: row.source,
      runtime: row.runtime,
      worker: row.worker,
      profile: row.profile,
      incarnation: row.incarnation,
      lastDeleted: asSeq(row.lastDeleted),
    }))

const openingError = (error: unknown): ShojiError => {
  if (error instanceof ShojiError) return error
  const { code, cause } = failureOf(error)
  return new ShojiError(
    code === 'journal_unavailable' ? 'data_dir_unusable' : code,
    `the journal cannot be opened: ${cause}`,
    {
      cause: error,
    },
  )
}

/**
 * Makes or opens the journal of `dataDir`, brings its schema up to date and opens a generation. The caller
 * holds the lock. Errors: `journal_newer`, `journal_damaged`, `disk_full`, `data_dir_unusable`.
 */
export const openFile = (dataDir: string, now: number, random: RandomBytes = randomBytes): Opened => {
  const path = join(dataDir, JOURNAL_FILE)
  let database: Database.Database | undefined
  try {
    createPrivateFile(path)
    // The WAL and its index take their mode from the file when they are made, not later.
    for (const file of [path, `${path}-wal`, `${path}-shm`]) if (existsSync(file)) chmodSync(file, 0o600)
    database = new Database(path)
    const folder = migrationsFolder()
    setDurable(database, fileBytes(path) === 0)
    refuseNewer(database, folder)
    const db = drizzle(database)
    migrate(db, { migrationsFolder: folder })
    return db.transaction(tx => {
      const keys = ensureKeys(tx, random)
      const last = readLast(tx)
      openGeneration(tx, asSeq(last + 1), now, random)
      return { keys, last, generations: readGenerations(tx), streams: readStreams(tx) }
    })
  } catch (error) {
    throw openingError(error)
  } finally {
    database?.close()
  }
}

/** As `openFile`, for one who only reads: nothing is written, no lock is needed. */
export const readOpened = (database: Database.Database): Opened => {
  const folder = migrationsFolder()
  refuseNewer(database, folder)
  const db = drizzle(database)
  const { cursor_key: cursor, id_key: id } = readKeys(db)
  if (cursor === undefined || id === undefined)
    throw new ShojiError('journal_damaged', 'the journal has no keys')
  return {
    keys: { cursor, id },
    generations: readGenerations(db),
    streams: readStreams(db),
    last: readLast(db),
  }
}
