import type { ProblemCode } from '@shoji/web-contract'

/**
 * Codes of errors that never reach a client by their own name; `http/errors.ts` decides what one sees.
 * Together with the contract's problem codes this is the closed list.
 */
export const INTERNAL_CODES = [
  'config_invalid',
  'config_unreadable',
  'secret_unresolved',
  'address_unusable',
  'data_dir_locked',
  'data_dir_unusable',
  'journal_damaged',
  'journal_newer',
  'disk_full',
  'journal_closed',
  'upstream_unauthorized',
  'upstream_unreachable',
  'upstream_protocol',
  'upstream_frame_too_large',
  'upstream_worker_gone',
  'upstream_route_missing',
  'aborted',
] as const

export type ErrorCode = ProblemCode | (typeof INTERNAL_CODES)[number]

/** The one error of this code base: told apart by `code`, never by its message. */
export class ShojiError extends Error {
  readonly code: ErrorCode
  /** Facts for the log: names, counts, positions. Never a secret, never shown to a client. */
  readonly facts: Readonly<Record<string, unknown>>

  constructor(
    code: ErrorCode,
    message: string,
    options: { cause?: unknown; facts?: Record<string, unknown> } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'ShojiError'
    this.code = code
    this.facts = options.facts ?? {}
  }
}

/** The code of an error, if it is one of ours. */
export const codeOf = (error: unknown): ErrorCode | undefined =>
  error instanceof ShojiError ? error.code : undefined
