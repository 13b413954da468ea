import type { Class } from '@shoji/web-contract'
import type { Shape } from './shape.ts'

/**
 * The class of every field of every event. What is not in this table is not shown to anyone: a field that
 * is missing here does not exist, and an event that is missing is of class `unknown`.
 */
export interface EventShape {
  /** The event is told where one of these is not dropped. */
  readonly of: readonly Class[]
  /** A piece of a text: told only where the text itself is, so that neither length nor rhythm shows. */
  readonly delta?: true
  readonly fields: Readonly<Record<string, Shape>>
}

const leaf = (of: Class): Shape => ({ leaf: of })
const id: Shape = { id: true }
export const all = (of: Class, ...names: string[]): Record<string, Shape> =>
  Object.fromEntries(names.map(name => [name, leaf(of)]))

export const toolName: Shape = { leaf: 'tool_call', name: true }

const segments: Shape = {
  list: {
    kinds: {
      text: all('user_input', 'content'),
      paste: all('user_input', 'id', 'chars', 'lines', 'content'),
      file_ref: all('workspace', 'path'),
      flow: all('user_input', 'selector'),
      knowledge_ref: all('user_input', 'slug'),
      workflow_invoke: all('user_input', 'slug'),
    },
  },
}

const systemItem: Shape = {
  kinds: {
    notification: all('system', 'message', 'body'),
    worker_event: all('system', 'event', 'body'),
    file_attachment: { ...all('workspace', 'path'), ...all('tool_output', 'body') },
    skill_activation: all('system', 'name', 'body'),
    task_reminder: all('system', 'source', 'body'),
    interrupt: all('system', 'body'),
    knowledge: all('system', 'slug', 'body'),
    workflow: all('system', 'slug', 'body'),
    embedded_worker_system_input: all('system', 'content'),
    embedded_worker_command_input: all('system', 'command', 'content'),
    message: all('system', 'body'),
  },
}

/** Other image types can carry script, and other attachments anything. */
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'] as const

const attachments: Shape = {
  list: {
    where: { kind: ['image'], mime_type: IMAGE_TYPES },
    fields: { kind: { id: true }, ...all('tool_output', 'mime_type', 'data') },
  },
}

const commandEvent: Shape = {
  kinds: {
    started: { command_id: id, tool_call_id: id, ...all('tool_output', 'observed_at_ms') },
    output: {
      command_id: id,
      stream: leaf('tool_output'),
      ...all('tool_output', 'start_offset', 'end_offset', 'content', 'truncated'),
    },
    terminal: {
      command_id: id,
      ...all('lifecycle', 'status'),
      ...all('tool_output', 'exit_code', 'stdout_end_offset', 'stderr_end_offset', 'observed_at_ms'),
    },
  },
}

export const internalWorkerShape: Shape = {
  fields: { session_id: id, parent_session_id: id, ...all('lifecycle', 'name', 'kind') },
}

export const EVENTS: Readonly<Record<string, EventShape>> = {
  user_message: { of: ['user_input'], fields: { segments } },
  system_item: { of: ['system'], fields: { item: systemItem } },
  system_prompt: { of: ['system'], fields: all('system', 'text') },
  invoke_start: { of: ['lifecycle'], fields: all('lifecycle', 'kind') },
  turn_start: { of: ['lifecycle'], fields: all('lifecycle', 'turn') },
  turn_end: { of: ['lifecycle'], fields: all('lifecycle', 'turn', 'result') },
  llm_call_start: { of: ['lifecycle'], fields: all('lifecycle', 'llm_call') },
  llm_call_end: { of: ['lifecycle'], fields: all('lifecycle', 'llm_call') },
  llm_retry: {
    of: ['lifecycle'],
    fields: {
      ...all('lifecycle', 'llm_call', 'failed_attempt', 'max_attempts', 'wait_ms', 'elapsed_ms', 'status'),
      ...all('diagnostics', 'error'),
    },
  },
  llm_continuation: {
    of: ['lifecycle'],
    fields: { ...all('lifecycle', 'llm_call', 'attempt', 'max_attempts'), ...all('diagnostics', 'reason') },
  },
  text_delta: { of: ['assistant_text'], delta: true, fields: all('assistant_text', 'text') },
  text_done: { of: ['assistant_text'], fields: all('assistant_text', 'text') },
  thinking_start: { of: ['thinking'], fields: {} },
  thinking_delta: { of: ['thinking'], delta: true, fields: all('thinking', 'text') },
  thinking_done: { of: ['thinking'], fields: all('thinking', 'text') },
  tool_call_start: { of: ['tool_call'], fields: { id, name: toolName } },
  tool_call_done: {
    of: ['tool_call'],
    fields: { id, name: toolName, arguments: { leaf: 'tool_args', masked: '{}' } },
  },
  tool_result: {
    of: ['tool_output'],
    fields: { id, ...all('tool_output', 'summary', 'output', 'is_error'), attachments },
  },
  'command.started': { of: ['tool_output'], fields: { event: commandEvent } },
  'command.output': { of: ['tool_output'], delta: true, fields: { event: commandEvent } },
  'command.terminal': { of: ['tool_output'], fields: { event: commandEvent } },
  usage: { of: ['usage'], fields: all('usage', 'input_tokens', 'output_tokens', 'cache_read_input_tokens') },
  run_end: { of: ['lifecycle'], fields: all('lifecycle', 'result') },
  error: { of: ['lifecycle'], fields: { ...all('lifecycle', 'code'), ...all('diagnostics', 'message') } },
  alert: { of: ['diagnostics'], fields: all('diagnostics', 'level', 'source', 'message', 'timestamp_ms') },
  memory_worker: {
    of: ['diagnostics'],
    fields: all('diagnostics', 'worker', 'status', 'run_id', 'trigger', 'reason', 'message', 'timestamp_ms'),
  },
  status: { of: ['lifecycle'], fields: all('lifecycle', 'status') },
  compact_start: { of: ['lifecycle'], fields: {} },
  compact_done: { of: ['lifecycle'], fields: all('lifecycle', 'new_segment_id') },
  compact_failed: { of: ['lifecycle'], fields: all('diagnostics', 'error') },
  internal_worker_removed: {
    of: ['lifecycle'],
    fields: { worker: internalWorkerShape, ...all('lifecycle', 'revision') },
  },
  shutdown: { of: ['lifecycle'], fields: {} },
  greeting: {
    of: ['workspace', 'lifecycle'],
    fields: {
      ...all('lifecycle', 'worker_name', 'context_window', 'context_tokens'),
      ...all('workspace', 'cwd', 'provider', 'model', 'scope_summary'),
      tools: { list: leaf('workspace') },
    },
  },
}

/**
 * Never shown to anyone and not grantable: answers to one client's request, broadcast to all (they name
 * other workers and past text), fragments of arguments (JSON text cut anywhere), and what replaces the list.
 */
export const NEVER: ReadonlySet<string> = new Set([
  'rewind_targets',
  'completions',
  'workers_listed',
  'worker_restored',
  'peer_registered',
  'tool_call_args_delta',
  'segment_rotated',
  'rewind_applied',
  'snapshot',
  'internal_worker',
  'command',
])

export const UNKNOWN_SHAPE: Shape = { foreign: 'unknown' }
