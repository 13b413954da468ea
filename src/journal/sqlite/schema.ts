/**
 * The journal's tables. `drizzle-kit generate` turns a change here into the next file of `migrations/`,
 * which is append-only: a released migration is never edited.
 */
import { sql } from 'drizzle-orm'
import { blob, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/** Facts about this journal as a whole: its keys. */
export const meta = sqliteTable('meta', {
  name: text('name').primaryKey(),
  value: blob('value', { mode: 'buffer' }).notNull(),
})

/** One row a process start, in the order of `ordinal`; two starts without an entry between share `first`. */
export const generations = sqliteTable('generations', {
  ordinal: integer('ordinal').primaryKey({ autoIncrement: true }),
  id: integer('id').notNull().unique(),
  first: integer('first').notNull(),
  time: integer('time').notNull(),
})

export const streams = sqliteTable(
  'streams',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    source: text('source', { enum: ['runtime', 'mcp'] }).notNull(),
    runtime: text('runtime').notNull(),
    worker: text('worker').notNull(),
    profile: text('profile'),
    incarnation: integer('incarnation').notNull().default(0),
    lastDeleted: integer('last_deleted').notNull().default(0),
    /** Kept with every write, so that retention and statistics need not count rows. */
    entries: integer('entries').notNull().default(0),
    bytes: integer('bytes').notNull().default(0),
    /** As above, with what was deleted since. */
    totalEntries: integer('total_entries').notNull().default(0),
    totalBytes: integer('total_bytes').notNull().default(0),
  },
  table => [uniqueIndex('streams_ref').on(table.source, table.runtime, table.worker)],
)

/** The hot table. Written and paged by the prepared statements of `writer.ts` and `reader.ts`. */
export const entries = sqliteTable(
  'entries',
  {
    seq: integer('seq').primaryKey(),
    stream: integer('stream').notNull(),
    incarnation: integer('incarnation').notNull(),
    time: integer('time').notNull(),
    itemSeq: integer('item_seq'),
    itemIndex: integer('item_index'),
    replaces: integer('replaces').notNull(),
    mark: integer('mark').notNull(),
    /** UTF-8 bytes of context and payload. */
    bytes: integer('bytes').notNull(),
    event: text('event').notNull(),
    eventId: text('event_id').notNull(),
    context: text('context').notNull(),
    /** Last: what stands behind it in a row is reached through its overflow pages. */
    payload: text('payload').notNull(),
  },
  table => [
    // An index that leads with what grows across all streams is written at its end, one that leads with the
    // stream at as many places as there are streams: each a page to copy, at every commit.
    uniqueIndex('entries_event').on(table.eventId, table.stream, table.incarnation),
    index('entries_stream').on(table.stream, table.seq),
    index('entries_item').on(table.itemSeq, table.itemIndex, table.seq).where(sql`item_seq IS NOT NULL`),
    index('entries_item_mark')
      .on(table.itemSeq, table.itemIndex, table.seq)
      .where(sql`item_seq IS NOT NULL AND mark = 1`),
    index('entries_mark').on(table.stream, table.seq).where(sql`mark = 1 OR replaces = 1`),
    index('entries_replaces').on(table.stream, table.seq).where(sql`replaces = 1`),
  ],
)

export const checkpoints = sqliteTable(
  'checkpoints',
  {
    stream: integer('stream').notNull(),
    seq: integer('seq').notNull(),
    version: integer('version').notNull(),
    state: text('state').notNull(),
  },
  table => [primaryKey({ columns: [table.stream, table.seq] })],
)

/**
 * Where retention may cut a stream: no block lies on both sides of such a position. One row a checkpoint at
 * which nothing was open and one before every list-replacing entry (it ends all blocks); they outlive the
 * checkpoints' states, of which two are kept.
 */
export const cuts = sqliteTable(
  'cuts',
  {
    stream: integer('stream').notNull(),
    seq: integer('seq').notNull(),
    /** No entry up to `seq` is younger, in milliseconds since the epoch. */
    time: integer('time').notNull(),
    /** The stream's totals at this position: the difference to what is deleted already is what a cut frees. */
    totalEntries: integer('total_entries').notNull(),
    totalBytes: integer('total_bytes').notNull(),
  },
  table => [primaryKey({ columns: [table.stream, table.seq] })],
)

export const positions = sqliteTable('positions', {
  stream: integer('stream').primaryKey(),
  position: text('position').notNull(),
})

export const quarantine = sqliteTable(
  'quarantine',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    stream: integer('stream').notNull(),
    time: integer('time').notNull(),
    cause: text('cause', { enum: ['too_large', 'malformed', 'foreign_worker', 'binary'] }).notNull(),
    bytes: integer('bytes').notNull(),
    /** UTF-8 bytes of the body as kept. */
    kept: integer('kept').notNull(),
    body: text('body').notNull(),
  },
  table => [index('quarantine_stream').on(table.stream)],
)
