/**
 * The projected event vocabulary: what may stand in an envelope's `event` and `data`. Fields a viewer's
 * view drops are absent, masked ones are empty, so every field here is optional but the ids.
 */
import { z } from 'zod'

const text = z.string().optional()
const num = z.union([z.number(), z.bigint()]).optional()
const bool = z.boolean().optional()
const none = z.strictObject({})
const callId = z.string().optional()

export const segmentSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('text'), content: text }),
  z.strictObject({ kind: z.literal('paste'), id: num, chars: num, lines: num, content: text }),
  z.strictObject({ kind: z.literal('file_ref'), path: text }),
  z.strictObject({ kind: z.literal('flow'), selector: text }),
  z.strictObject({ kind: z.literal('knowledge_ref'), slug: text }),
  z.strictObject({ kind: z.literal('workflow_invoke'), slug: text }),
  z.strictObject({ kind: z.literal('unknown') }),
])

export const systemItemSchema = z.looseObject({ kind: z.string() })

const internalWorkerId = z.strictObject({
  session_id: z.string(),
  name: text,
  parent_session_id: text,
  kind: text,
})

export const eventSchemas = {
  user_message: z.strictObject({ segments: z.array(segmentSchema).optional() }),
  system_item: z.strictObject({ item: systemItemSchema.optional() }),
  invoke_start: z.strictObject({ kind: text }),
  turn_start: z.strictObject({ turn: num }),
  turn_end: z.strictObject({ turn: num, result: text }),
  llm_call_start: z.strictObject({ llm_call: num }),
  llm_call_end: z.strictObject({ llm_call: num }),
  llm_retry: z.strictObject({
    llm_call: num,
    failed_attempt: num,
    max_attempts: num,
    wait_ms: num,
    elapsed_ms: num,
    status: num,
    error: text,
  }),
  llm_continuation: z.strictObject({ llm_call: num, attempt: num, max_attempts: num, reason: text }),
  text_delta: z.strictObject({ text }),
  text_done: z.strictObject({ text }),
  thinking_start: none,
  thinking_delta: z.strictObject({ text }),
  thinking_done: z.strictObject({ text }),
  tool_call_start: z.strictObject({ id: callId, name: text }),
  tool_call_done: z.strictObject({ id: callId, name: text, arguments: text }),
  tool_result: z.strictObject({
    id: callId,
    summary: text,
    output: text,
    is_error: bool,
    attachments: z.array(z.strictObject({ kind: z.string(), mime_type: text, data: text })).optional(),
  }),
  command: z.strictObject({
    event: z.discriminatedUnion('kind', [
      z.strictObject({
        kind: z.literal('started'),
        command_id: callId,
        tool_call_id: callId,
        observed_at_ms: num,
      }),
      z.strictObject({
        kind: z.literal('output'),
        command_id: callId,
        stream: text,
        start_offset: num,
        end_offset: num,
        content: text,
        truncated: bool,
      }),
      z.strictObject({
        kind: z.literal('terminal'),
        command_id: callId,
        status: text,
        exit_code: num.nullable(),
        stdout_end_offset: num,
        stderr_end_offset: num,
        observed_at_ms: num,
      }),
    ]),
  }),
  usage: z.strictObject({ input_tokens: num, output_tokens: num, cache_read_input_tokens: num }),
  run_end: z.strictObject({ result: text }),
  error: z.strictObject({ code: text, message: text }),
  alert: z.strictObject({ level: text, source: text, message: text, timestamp_ms: num }),
  memory_worker: z.strictObject({
    worker: text,
    status: text,
    run_id: text,
    trigger: text,
    reason: text,
    message: text,
    timestamp_ms: num,
  }),
  status: z.strictObject({ status: text }),
  compact_start: none,
  compact_done: z.strictObject({ new_segment_id: text }),
  compact_failed: z.strictObject({ error: text }),
  internal_worker: z.strictObject({
    worker: internalWorkerId,
    revision: num,
    event: z.strictObject({ event: z.string(), data: z.record(z.string(), z.unknown()) }),
  }),
  internal_worker_removed: z.strictObject({ worker: internalWorkerId, revision: num }),
  shutdown: none,
  /** Shoji's own: what ends is shown, what ended it is not. Its blocks stand in `tails`. */
  block_end: none,
} as const

export type EventName = keyof typeof eventSchemas
export const EVENT_NAMES = Object.keys(eventSchemas) as EventName[]
