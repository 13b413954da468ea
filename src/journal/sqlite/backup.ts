import { renameSync, rmSync } from 'node:fs'
import type { Database } from 'better-sqlite3'
import { createPrivateFile } from './lock.ts'

/** Pages copied between two turns of the event loop: commits wait for one such slice at most. */
const SLICE_PAGES = 256

/**
 * Copies the journal to `path`, mode 0600, while it is written to. It must be the writer's connection: what
 * another one writes between two slices begins the copy anew, so a reader's takes all pages in one. A copy
 * that was broken off never stands under its name.
 */
export const backupTo = async (database: Database, path: string, slicePages = SLICE_PAGES): Promise<void> => {
  const partial = `${path}.partial`
  rmSync(partial, { force: true })
  createPrivateFile(partial)
  try {
    await database.backup(partial, { progress: () => slicePages })
    renameSync(partial, path)
  } catch (error) {
    rmSync(partial, { force: true })
    throw error
  }
}
