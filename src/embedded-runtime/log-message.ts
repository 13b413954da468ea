import { removeSaid } from './in-flight.ts'
import type { JsonObject } from './json.ts'
import { appendEntry, clearMessage, type LogContext, type WorkerLog } from './worker-log.ts'

const signature = (text: string): JsonObject =>
  text === ''
    ? { encrypted_content: Buffer.from('FAKE-REDACTED-THINKING').toString('base64') }
    : { signature: `mock-signature-${Buffer.from(Buffer.from(text).subarray(0, 9)).toString('base64')}` }
const assistantItem = (log: WorkerLog, context: LogContext, item: JsonObject): void =>
  appendEntry(log, context, { kind: 'assistant_item', item })

/** The message enters the log: all reasoning, then one message with the texts joined, then the calls (R31). */
export const commitMessage = (log: WorkerLog, context: LogContext): void => {
  for (const text of log.reasoning) {
    assistantItem(log, context, { kind: 'reasoning', text, ...signature(text) })
    removeSaid(log.flight, 'thinking', text)
  }
  if (log.texts.length > 0) {
    const text = log.texts.join('')
    assistantItem(log, context, { kind: 'message', role: 'assistant', content: [{ kind: 'text', text }] })
    removeSaid(log.flight, 'text', text)
  }
  for (const call of log.calls) {
    const args = call.args === 'null' ? '{}' : call.args
    assistantItem(log, context, { kind: 'tool_call', call_id: call.id, name: call.name, arguments: args })
  }
  clearMessage(log, false)
  if (context.generation === 'protocol-ws') log.flight.blocks = []
}

/** Blocks of a turn that failed stay in the first generation's `in_flight` (R22), later Runtimes clear them. */
export const dropMessage = (log: WorkerLog, context: LogContext): void => {
  const first = context.generation === 'events-ws'
  clearMessage(log, first)
  if (!first) log.flight.blocks = []
}

const tokens = (json: string, key: string): string => new RegExp(`"${key}":(\\d+)`).exec(json)?.[1] ?? '0'

/** Counts are copied as digits: they may exceed 2^53. */
export const usageEntry = (log: WorkerLog, context: LogContext, json: string): string =>
  `{"cache_read_tokens":${tokens(json, 'cache_read_input_tokens')},"cache_write_tokens":0,"history_len":${log.history},"input_total_tokens":${tokens(json, 'input_tokens')},"kind":"llm_usage","output_tokens":${tokens(json, 'output_tokens')},"ts":${context.now()}}`
