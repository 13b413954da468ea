import type { Json } from '../../lib/json.ts'

/** Where the message under way stands. `failed`: an error came in it. `sealed`: its call has ended well. */
export type Phase = 'quiet' | 'speaking' | 'failed' | 'sealed'

export type Signal =
  /** A finished text or call. */
  | 'part'
  | 'call_end'
  | 'continuation'
  | 'error'
  /** Something that comes only after the message before it is logged. */
  | 'next'
  /** The end of a run that throws its message away. */
  | 'abort'
  /** The worker does not run any more. */
  | 'rest'

type Act = 'none' | 'add' | 'log' | 'log_then_add' | 'log_texts' | 'doubt' | 'loosen'

interface Move {
  readonly to: Phase
  readonly act: Act
}

const go = (to: Phase, act: Act): Move => ({ to, act })

/**
 * `failed` is left by a part or by the call's end, because errors are also said of other things than the
 * message: a method of some client that was refused (R46, R57). The Runtime drops events unseen (R20), so the
 * table expects none of them.
 */
export const MOVES: Readonly<Record<Phase, Readonly<Record<Signal, Move>>>> = {
  quiet: {
    part: go('speaking', 'add'),
    // An empty message too is logged, and what is loose with it.
    call_end: go('sealed', 'none'),
    continuation: go('quiet', 'log_texts'),
    error: go('quiet', 'none'),
    next: go('quiet', 'none'),
    abort: go('quiet', 'none'),
    rest: go('quiet', 'none'),
  },
  speaking: {
    part: go('speaking', 'add'),
    call_end: go('sealed', 'none'),
    continuation: go('quiet', 'log_texts'),
    error: go('failed', 'none'),
    next: go('quiet', 'log'),
    abort: go('quiet', 'loosen'),
    rest: go('quiet', 'log'),
  },
  failed: {
    part: go('speaking', 'add'),
    call_end: go('sealed', 'none'),
    continuation: go('quiet', 'log_texts'),
    error: go('failed', 'none'),
    next: go('quiet', 'loosen'),
    abort: go('quiet', 'loosen'),
    rest: go('quiet', 'loosen'),
  },
  sealed: {
    part: go('speaking', 'log_then_add'),
    call_end: go('sealed', 'none'),
    continuation: go('quiet', 'log_texts'),
    error: go('quiet', 'doubt'),
    next: go('quiet', 'log'),
    abort: go('quiet', 'log'),
    rest: go('quiet', 'log'),
  },
}

const ENDS_RUN_BADLY: ReadonlySet<unknown> = new Set(['paused', 'rolled_back'])

/** What an event says of the message under way; undefined for most. */
export function signalOf(event: string, data: Json): Signal | undefined {
  switch (event) {
    case 'text_done':
    case 'tool_call_done':
      return 'part'
    case 'llm_call_end':
      return 'call_end'
    case 'llm_continuation':
      return 'continuation'
    case 'error':
      return 'error'
    case 'user_message':
    case 'llm_call_start':
    case 'turn_start':
    case 'turn_end':
    case 'tool_result':
      return 'next'
    case 'run_end':
      return ENDS_RUN_BADLY.has(data.result) ? 'abort' : 'next'
    case 'shutdown':
      return 'abort'
    case 'status':
      return data.status === 'running' ? undefined : 'rest'
    default:
      return undefined
  }
}
