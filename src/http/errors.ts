import { PROBLEMS, type Problem, type ProblemCode } from '@shoji/web-contract'
import { type ErrorCode, INTERNAL_CODES, ShojiError } from '../lib/error.ts'

/** What a client is told for codes that are not its business. */
const SEEN_AS: Readonly<Record<(typeof INTERNAL_CODES)[number], ProblemCode>> = {
  config_invalid: 'internal',
  config_unreadable: 'internal',
  secret_unresolved: 'internal',
  address_unusable: 'internal',
  data_dir_locked: 'internal',
  data_dir_unusable: 'journal_unavailable',
  journal_damaged: 'journal_unavailable',
  journal_newer: 'journal_unavailable',
  disk_full: 'journal_unavailable',
  journal_closed: 'not_ready',
  upstream_unauthorized: 'runtime_unavailable',
  upstream_unreachable: 'runtime_unavailable',
  upstream_protocol: 'runtime_unavailable',
  upstream_frame_too_large: 'runtime_unavailable',
  upstream_worker_gone: 'worker_not_found',
  upstream_route_missing: 'command_unsupported',
  aborted: 'not_ready',
}

const TITLES: Partial<Record<ProblemCode, string>> = {
  worker_not_found: 'No such worker',
  runtime_not_found: 'No such runtime',
  unauthenticated: 'Credentials are missing or not valid',
  origin_forbidden: 'This origin may not call',
  internal: 'Something went wrong here',
}

/** Codes whose own message may go out: it speaks of the request alone. */
const SAID: ReadonlySet<ProblemCode> = new Set([
  'bad_request',
  'cursor_malformed',
  'selection_invalid',
  'command_unknown',
  'payload_too_large',
  'unsupported_media_type',
  'view_changed',
])

const isInternal = (code: ErrorCode): code is (typeof INTERNAL_CODES)[number] =>
  (INTERNAL_CODES as readonly string[]).includes(code)

/** The one place that decides what a client learns of an error. Internal detail never goes out. */
export function toProblem(error: unknown, instance: string): Problem {
  const own = error instanceof ShojiError ? error : undefined
  const code: ProblemCode =
    own === undefined ? 'internal' : isInternal(own.code) ? SEEN_AS[own.code] : own.code
  const title = TITLES[code] ?? code.replaceAll('_', ' ').replace(/^./, c => c.toUpperCase())
  return {
    type: `/docs/problems#${code}`,
    title,
    status: PROBLEMS[code],
    code,
    detail: own !== undefined && SAID.has(code) ? own.message : title,
    instance,
  }
}
