import type { ResetReason, UpstreamState } from '@shoji/web-contract'

/** When a worker is connected again. */
export type Retry = 'now' | 'backoff' | 'slow' | 'listing' | 'never'

interface EndRule {
  readonly retry: Retry
  /**
   * What viewers are told meanwhile; nothing new if absent. The code is ours and stable: nothing of the
   * Runtime's wording.
   */
  readonly upstream?: UpstreamState
  readonly code?: string
  /** Why the list is replaced when the worker is next believed. */
  readonly reset: ResetReason
  /**
   * No resume is tried: a frame is lost that asking again would not bring, the list is known to be wrong, or
   * another try would end as this one did.
   */
  readonly afresh?: true
}

/**
 * Every way in which an observation connection can end. The Runtime never says a close frame (the code is
 * always 1006), so that a close code tells nothing and none stands here.
 */
export const ENDS = {
  /** The socket ended without a word: the Runtime was killed, restarted, or let an overrun reader go. */
  closed: {
    retry: 'backoff',
    upstream: 'reconnecting',
    code: 'upstream_closed',
    reset: 'upstream_unverifiable',
  },
  unreachable: {
    retry: 'backoff',
    upstream: 'reconnecting',
    code: 'upstream_unreachable',
    reset: 'upstream_unverifiable',
  },
  /** A wrong token may be put right on the other side at any time, so it is tried again. */
  unauthorized: {
    retry: 'backoff',
    upstream: 'degraded',
    code: 'upstream_unauthorized',
    reset: 'upstream_unverifiable',
  },
  route_missing: {
    retry: 'backoff',
    upstream: 'degraded',
    code: 'upstream_route_missing',
    reset: 'upstream_unverifiable',
  },
  /** An upgrade answered with anything else: a redirect, a proxy's page, a refusal nobody knows. */
  refused: {
    retry: 'backoff',
    upstream: 'degraded',
    code: 'upstream_protocol',
    reset: 'upstream_unverifiable',
  },
  worker_gone: {
    retry: 'slow',
    upstream: 'gone',
    code: 'upstream_worker_gone',
    reset: 'upstream_unverifiable',
    afresh: true,
  },
  no_snapshot: {
    retry: 'backoff',
    upstream: 'degraded',
    code: 'upstream_protocol',
    reset: 'upstream_unverifiable',
  },
  /** The first frame was no snapshot. */
  bad_opening: {
    retry: 'backoff',
    upstream: 'degraded',
    code: 'upstream_protocol',
    reset: 'upstream_unverifiable',
  },
  no_pong: {
    retry: 'backoff',
    upstream: 'reconnecting',
    code: 'upstream_silent',
    reset: 'upstream_unverifiable',
  },
  silent: {
    retry: 'backoff',
    upstream: 'reconnecting',
    code: 'upstream_silent',
    reset: 'upstream_unverifiable',
  },
  /** More came between snapshot and fence than is held. */
  held_too_much: {
    retry: 'backoff',
    upstream: 'reconnecting',
    code: 'upstream_overflow',
    reset: 'upstream_unverifiable',
    afresh: true,
  },
  /** A quick retry would carry the same bytes again. */
  snapshot_too_large: {
    retry: 'slow',
    upstream: 'degraded',
    code: 'snapshot_too_large',
    reset: 'upstream_unverifiable',
  },
  frame_too_large: {
    retry: 'backoff',
    upstream: 'reconnecting',
    code: 'frame_too_large',
    reset: 'upstream_gap',
    afresh: true,
  },
  /** No WebSocket message could be read from the bytes, invalid UTF-8 included: one is lost. */
  garbled: {
    retry: 'backoff',
    upstream: 'reconnecting',
    code: 'upstream_protocol',
    reset: 'upstream_gap',
    afresh: true,
  },
  /** The Runtime said that it dropped events for us. They may be retained still (R65), so they are asked for. */
  overrun: { retry: 'backoff', upstream: 'reconnecting', code: 'upstream_overrun', reset: 'upstream_gap' },
  /** It said something else and ended the stream. */
  dismissed: {
    retry: 'backoff',
    upstream: 'reconnecting',
    code: 'upstream_closed',
    reset: 'upstream_unverifiable',
  },
  /** The journal did not take what came. */
  not_taken: { retry: 'backoff', upstream: 'journal_unavailable', reset: 'upstream_gap', afresh: true },
  /** The journal could not be read before anything was asked of the Runtime. */
  not_ready: { retry: 'backoff', upstream: 'journal_unavailable', reset: 'upstream_unverifiable' },
  profile_changed: {
    retry: 'now',
    upstream: 'reconnecting',
    code: 'worker_changed',
    reset: 'worker_changed',
    afresh: true,
  },
  /** The cursor was refused, which can happen where nothing was lost (R17): all that is retained is asked for. */
  ask_from_zero: { retry: 'now', reset: 'upstream_unverifiable' },
  /** The verdict says why the list is replaced. */
  not_proven: { retry: 'now', reset: 'upstream_unverifiable', afresh: true },
  /** A proven resume whose snapshot says something else, and no event that explains it came. */
  state_mismatch: { retry: 'now', reset: 'upstream_state_mismatch', afresh: true },
  /** A fresh snapshot says something else than the stream did, and the outcome says why. */
  resynced: { retry: 'now', reset: 'upstream_unverifiable', afresh: true },
  /** A snapshot was all that was asked for, beside the connection that stands. */
  glanced: { retry: 'never', reset: 'upstream_unverifiable' },
  /** Only the empty snapshot of a stopped worker was to be had. */
  stand_in: { retry: 'listing', upstream: 'gone', reset: 'upstream_unverifiable' },
  /** The worker does not run; its snapshot was all that was asked for. */
  looked: { retry: 'listing', upstream: 'gone', reset: 'upstream_unverifiable' },
  /** No longer listed as running; its socket would stay open and silent for ever. */
  left: { retry: 'listing', upstream: 'gone', reset: 'upstream_unverifiable' },
  aborted: { retry: 'never', upstream: 'reconnecting', reset: 'upstream_unverifiable' },
} as const satisfies Record<string, EndRule>

export type EndCode = keyof typeof ENDS

export const ruleOf = (code: EndCode): EndRule => ENDS[code]

/** The diagnostics that a Runtime is known to say before it ends a stream. */
const DIAGNOSTICS: ReadonlyMap<string, EndCode> = new Map([['runtime.cursor_expired', 'overrun']])

export const endOfDiagnostic = (code: string): EndCode => DIAGNOSTICS.get(code) ?? 'dismissed'
