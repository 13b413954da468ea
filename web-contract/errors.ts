/** RFC 9457 problem documents with a `code` from one closed list. */
import { z } from 'zod'

/** Every code a client may meet, with its status. */
export const PROBLEMS = {
  bad_request: 400,
  cursor_malformed: 400,
  selection_invalid: 400,
  command_unknown: 400,
  unauthenticated: 401,
  credentials_expired: 401,
  credentials_revoked: 401,
  forbidden: 403,
  command_denied: 403,
  origin_forbidden: 403,
  not_found: 404,
  runtime_not_found: 404,
  worker_not_found: 404,
  item_not_found: 404,
  method_not_allowed: 405,
  view_changed: 409,
  worker_busy: 409,
  idempotency_conflict: 409,
  policy_conflict: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  host_unknown: 421,
  policy_invalid: 422,
  command_unsupported: 422,
  rate_limited: 429,
  internal: 500,
  runtime_unavailable: 503,
  journal_unavailable: 503,
  not_ready: 503,
  overloaded: 503,
} as const

export type ProblemCode = keyof typeof PROBLEMS
export const PROBLEM_CODES = Object.keys(PROBLEMS) as ProblemCode[]

export const problemSchema = z.strictObject({
  type: z.string(),
  title: z.string(),
  status: z.number().int(),
  code: z.enum(PROBLEM_CODES as [ProblemCode, ...ProblemCode[]]),
  detail: z.string(),
  instance: z.string(),
})
export type Problem = z.infer<typeof problemSchema>
