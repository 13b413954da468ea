import type { Database } from 'better-sqlite3'

/** `auto_vacuum` has an effect on an empty file alone, and every later pragma that writes ends that state. */
export const setDurable = (database: Database, empty: boolean): void => {
  if (empty) database.pragma('auto_vacuum = INCREMENTAL')
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  database.pragma('secure_delete = FAST')
}
