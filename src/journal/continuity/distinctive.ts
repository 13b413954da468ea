import { asRecord, asText, type Json } from '../../lib/json.ts'

const TEXTS: ReadonlySet<string> = new Set(['text_delta', 'text_done', 'thinking_delta', 'thinking_done'])
const CALLS: ReadonlySet<string> = new Set([
  'tool_call_start',
  'tool_call_args_delta',
  'tool_call_done',
  'tool_result',
])
/** Shorter ones come again in any life. */
const DISTINCTIVE_CHARS = 8

/**
 * Whether an event alone tells one life of a Runtime from another: it carries text of the model's or an id
 * made for it. What a user or a program sends does not count: a Runtime that begins again is often given the
 * same first input.
 */
export function isDistinctive(event: string, data: Json): boolean {
  const carried = TEXTS.has(event)
    ? asText(data.text).trim()
    : CALLS.has(event)
      ? asText(data.id)
      : event === 'compact_done'
        ? asText(asRecord(data).new_segment_id)
        : ''
  return carried.length >= DISTINCTIVE_CHARS
}
