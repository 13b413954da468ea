/**
 * The classes of what a Runtime tells otherwise than by a live event: log entries and their items, and what
 * is in flight in a snapshot. Viewers never see these as they are (`journal/expand.ts` makes events of them);
 * what must not be stored is removed by them. Config, extensions, signatures and encrypted content stand
 * nowhere here, and so are never kept once anything is removed.
 */
import type { Class } from '@shoji/web-contract'
import { all, EVENTS, type EventShape, internalWorkerShape, toolName } from './classes.ts'
import type { Shape } from './shape.ts'

type Fields = Readonly<Record<string, Shape>>

const id: Shape = { id: true }
/** Also the `input` that a rewind gives back to its author. */
export const SEGMENTS = EVENTS.user_message!.fields.segments!
const { item: systemItem } = EVENTS.system_item!.fields
const { attachments } = EVENTS.tool_result!.fields

/** Answers to one client's request: nobody is ever shown them, and they quote what was said. */
export const ANSWERS: ReadonlySet<string> = new Set([
  'rewind_targets',
  'completions',
  'workers_listed',
  'worker_restored',
  'peer_registered',
])

export const ARGUMENTS_DELTA: EventShape = { of: ['tool_args'], fields: { id, ...all('tool_args', 'json') } }

/** Nesting of internal workers that is looked at; what lies deeper is not kept. */
export const INTERNAL_WORKER_DEPTH_MAX = 16

/** By `kind`; the items in `history` and `item` are built by `LOG_ITEMS`. */
export const LOG_ENTRIES: Readonly<Record<string, Fields>> = {
  segment_start: {
    ts: id,
    session_id: id,
    ...all('system', 'system_prompt'),
    // Whether a segment replaces the list hangs on them.
    compacted_from: { fields: { segment_id: id, at_turn_index: id } },
    forked_from: { fields: { segment_id: id, session_id: id, at_turn_index: id } },
  },
  invoke: { ts: id, ...all('lifecycle', 'trigger') },
  user_input: { ts: id, segments: SEGMENTS },
  assistant_item: { ts: id },
  tool_result: { ts: id },
  system_item: { ts: id, item: systemItem! },
  turn_end: { ts: id, ...all('lifecycle', 'turn_count') },
  run_completed: { ts: id, ...all('lifecycle', 'result', 'interrupted') },
  run_errored: { ts: id, ...all('diagnostics', 'message'), ...all('lifecycle', 'interrupted') },
  paused_turn_abandoned: { ts: id },
  config_changed: { ts: id },
  llm_usage: {
    ts: id,
    ...all(
      'usage',
      'input_total_tokens',
      'output_tokens',
      'cache_read_tokens',
      'cache_write_tokens',
      'history_len',
    ),
  },
  extension: { ts: id },
}

/** By `kind`, but for `message`, whose class hangs on its role. */
export const LOG_ITEMS: Readonly<Record<string, Fields>> = {
  tool_call: { call_id: id, name: toolName, arguments: { leaf: 'tool_args', masked: '{}' } },
  tool_result: {
    call_id: id,
    ...all('tool_output', 'summary', 'content', 'is_error'),
    attachments: attachments!,
  },
  reasoning: { ...all('thinking', 'text'), summary: { list: { leaf: 'thinking' } } },
}

/** Any other role is the system's, as it is told. */
export const MESSAGE_ROLES: Readonly<Record<string, 'user' | 'assistant'>> = {
  user: 'user',
  assistant: 'assistant',
}

const content = (of: Class): Shape => ({
  list: { kinds: { text: all(of, 'text'), refusal: all(of, 'refusal') } },
})

export const MESSAGE_CONTENT = {
  user: content('user_input'),
  assistant: content('assistant_text'),
  system: content('system'),
} as const

export const IN_FLIGHT_BLOCKS: Readonly<Record<string, Fields>> = {
  text: { finished: id, ...all('assistant_text', 'text') },
  thinking: { finished: id, ...all('thinking', 'text') },
  tool_call: { id, state: id, name: toolName, ...all('tool_args', 'args') },
}

const output: Shape = {
  fields: all('tool_output', 'start_offset', 'end_offset', 'content', 'truncated'),
}

export const IN_FLIGHT_COMMAND: Fields = {
  command_id: id,
  tool_call_id: id,
  ...all('lifecycle', 'status'),
  ...all('tool_output', 'started_at_ms', 'observed_at_ms', 'last_output_at_ms', 'exit_code'),
  stdout: output,
  stderr: output,
}

/** A snapshot and an internal worker in one, but for its entries and what is in flight. */
export const SNAPSHOT_WORKER: Fields = {
  worker: internalWorkerShape,
  ...all('lifecycle', 'revision', 'status'),
  ...all('diagnostics', 'error'),
  greeting: { fields: EVENTS.greeting!.fields },
}
