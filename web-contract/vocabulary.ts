/**
 * The names that both sides share: classes of content, levels, and the reasons and codes of frames.
 * Only this package spells a wire name.
 */

/** What a field can be about. A viewer's view gives each class one level; no grant is `drop`. */
export const CLASSES = [
  'user_input',
  'assistant_text',
  'thinking',
  'tool_call',
  'tool_args',
  'tool_output',
  'diagnostics',
  'system',
  'workspace',
  'usage',
  'lifecycle',
  'unknown',
] as const
export type Class = (typeof CLASSES)[number]

/** From most to least: as it is, shortened, that it happened but not what it was, as if it had not been. */
export const LEVELS = ['show', 'truncate', 'mask', 'drop'] as const
export type Level = (typeof LEVELS)[number]

export const RESET_REASONS = [
  'cursor_malformed',
  'cursor_unknown',
  'view_changed',
  'cursor_expired',
  'policy_changed',
  'upstream_restarted',
  'upstream_gap',
  'upstream_unverifiable',
  'upstream_state_mismatch',
  'upstream_resynced',
  'worker_changed',
  'rewound',
  'compacted',
  'server_upgraded',
] as const
export type ResetReason = (typeof RESET_REASONS)[number]

export const GAP_REASONS = ['upstream_frame_rejected'] as const
export type GapReason = (typeof GAP_REASONS)[number]

export const BYE_REASONS = [
  'shutdown',
  'rotated',
  'credentials_expired',
  'revoked',
  'replaced',
  'overloaded',
] as const
export type ByeReason = (typeof BYE_REASONS)[number]

export const UPSTREAM_STATES = ['live', 'reconnecting', 'gone', 'degraded', 'journal_unavailable'] as const
export type UpstreamState = (typeof UPSTREAM_STATES)[number]

/** Commands a viewer may be granted, one name for each kind of act. */
export const COMMANDS = [
  'input.user',
  'input.segments',
  'input.system',
  'input.notify',
  'compact',
  'rewind_targets',
  'register_peer',
  'completions',
  'interrupt',
  'pause',
  'resume',
  'cancel',
  'stop',
  'start',
  'restart',
] as const
export type CommandName = (typeof COMMANDS)[number]

export const PROTOCOL_VERSION = 1
export const HEARTBEAT_MS = 15_000

/** Default and bounds of the `history` query: how many items a fresh snapshot holds. */
export const HISTORY_ITEMS = { default: 100, min: 0, max: 1_000 } as const
/** How many workers one selection may name. */
export const SELECTION_WORKERS_MAX = 100
/** A frame is never larger, in UTF-8 bytes with its framing. */
export const FRAME_BYTES_MAX = 1024 * 1024
/** A leaf text beyond this many UTF-16 units is cut, with a receipt that says where the rest is. */
export const LEAF_UNITS_MAX = 64 * 1024
/** Default and bounds of the `limit` query of a history page. */
export const HISTORY_PAGE_ITEMS = { default: 50, min: 1, max: 200 } as const

/** The `event:` names of the stream. */
export const FRAME_NAMES = [
  'hello',
  'snapshot',
  'caught_up',
  'envelope',
  'gap',
  'reset',
  'beat',
  'status',
  'view',
  'command',
  'bye',
] as const
export type FrameName = (typeof FRAME_NAMES)[number]

/** Frames that carry an id: each is a place to resume from. */
export const FRAMES_WITH_ID: ReadonlySet<FrameName> = new Set(['caught_up', 'envelope', 'gap', 'beat'])
