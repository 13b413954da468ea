import { ShojiError } from '../../lib/error.ts'
import type { JournalHealth } from '../journal.ts'

type FailureCode = Extract<JournalHealth, { state: 'unavailable' }>['code']

/** A failure as it crosses the thread's boundary: plain values only. */
export interface Failure {
  readonly code: FailureCode
  /** SQLite's own word, or that of the thread. */
  readonly cause: string
  readonly message: string
}

const sqliteCode = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''

/** Result codes are told by their beginning: SQLITE_IOERR_WRITE is an SQLITE_IOERR. */
const failureCode = (cause: string): FailureCode => {
  if (cause.startsWith('SQLITE_FULL') || cause === 'ENOSPC' || cause === 'EDQUOT') return 'disk_full'
  if (cause.startsWith('SQLITE_CORRUPT') || cause.startsWith('SQLITE_NOTADB')) return 'journal_damaged'
  return 'journal_unavailable'
}

export const failureOf = (error: unknown): Failure => {
  const cause = sqliteCode(error) || 'unknown'
  return { code: failureCode(cause), cause, message: error instanceof Error ? error.message : String(error) }
}

export const failed = (failure: Failure, what: string): ShojiError =>
  new ShojiError(failure.code, `${what}: ${failure.cause}`, {
    facts: { cause: failure.cause, detail: failure.message },
  })

/** An SQLite error as one of ours; one of ours as it is. */
export const asShojiError = (error: unknown, what: string): ShojiError =>
  error instanceof ShojiError
    ? error
    : new ShojiError(failureOf(error).code, `${what}: ${failureOf(error).cause}`, { cause: error })
