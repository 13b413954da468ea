import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { ShojiError } from '../../lib/error.ts'
import { failureOf } from './failure.ts'

export interface Lock {
  release(): void
}

/**
 * Creates an empty file with mode 0600 where there is none. An existing file is not opened, since closing
 * any descriptor of a file drops all POSIX locks that this process holds on it.
 */
export const createPrivateFile = (path: string): boolean => {
  try {
    closeSync(openSync(path, 'wx', 0o600))
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}

/**
 * Holds `dataDir` against every other process, and every other journal of this one, until released. It is a
 * lock of the kernel's on `lock.db`, so it ends with the process however that dies.
 * Errors: `data_dir_locked` at once if it is held, `data_dir_unusable` if it can't be had at all.
 */
export const lockDataDir = (dataDir: string): Lock => {
  const path = join(dataDir, 'lock.db')
  let database: Database.Database | undefined
  try {
    createPrivateFile(path)
    database = new Database(path, { timeout: 0 })
    database.pragma('locking_mode = EXCLUSIVE')
    database.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    database?.close()
    if (failureOf(error).cause.startsWith('SQLITE_BUSY'))
      throw new ShojiError('data_dir_locked', 'another server holds the data directory', { cause: error })
    throw new ShojiError('data_dir_unusable', 'the data directory cannot be locked', { cause: error })
  }
  const held = database
  return { release: () => void held.close() }
}
