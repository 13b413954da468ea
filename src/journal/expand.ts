import type { Class } from '@shoji/web-contract'
import { asArray, asRecord, asText, isRecord, type Json } from '../lib/json.ts'
import type { Context, Seq } from './entry.ts'
import { emptyOpenState, type OpenState } from './open-state.ts'
import { step } from './step.ts'

/**
 * A list-replacing event holds a conversation as log entries. Here they become the events that would have
 * told the same, so that one projector and one reducer serve snapshots and live streams alike.
 */
export interface Told {
  readonly event: string
  readonly data: Json
  /** Milliseconds since the epoch, where the log knows it. */
  readonly time?: number
}

/** One told event with its place in the list and its context. */
export interface Placed extends Told {
  readonly index: number
  readonly context: Context
}

export interface Expanded {
  readonly list: readonly Placed[]
  /** The state after the list. */
  readonly state: OpenState
}

export interface Carried {
  readonly status: string | null
  readonly usage?: unknown
  readonly greeting?: unknown
}

/**
 * Expands a list-replacing event. `carried` is what such an event leaves as it was, `notKept` the classes
 * that were removed from it.
 */
export function expandList(
  event: string,
  data: Json,
  seq: Seq,
  carried: Carried,
  notKept?: readonly Class[],
): Expanded {
  const state = emptyOpenState()
  const list = tell(event, data, carried).map(
    (told, index): Placed => ({
      ...told,
      index,
      context: step(state, told.event, told.data, { seq, index }, notKept),
    }),
  )
  return { list, state }
}

function tell(event: string, data: Json, carried: Carried): Told[] {
  if (event === 'snapshot') return tellSnapshot(data)
  const before: Told[] = []
  if (carried.greeting !== undefined) before.push({ event: 'greeting', data: asRecord(carried.greeting) })
  const list = event === 'rewind_applied' ? asArray(data.entries).flatMap(tellEntry) : tellEntry(data.entry)
  const after: Told[] = []
  if (carried.usage !== undefined) after.push({ event: 'usage', data: asRecord(carried.usage) })
  if (carried.status !== null) after.push({ event: 'status', data: { status: carried.status } })
  return [...before, ...list, ...after]
}

function tellSnapshot(data: Json): Told[] {
  const status = asText(data.status)
  const list: Told[] = []
  if (isRecord(data.greeting)) list.push({ event: 'greeting', data: data.greeting })
  // The status stands before what is open: anything but `running` ends blocks.
  const entries = asArray(data.entries)
  // A long session's log has more entries than a call takes arguments.
  for (const entry of entries) for (const told of tellEntry(entry)) list.push(told)
  for (const worker of asArray(data.internal_workers))
    for (const told of tellInternalWorker(asRecord(worker), 0)) list.push(told)
  if (status !== '') list.push({ event: 'status', data: { status } })
  if (status === 'running')
    for (const told of tellInFlight(asRecord(data.in_flight), entries)) list.push(told)
  return list
}

function tellInternalWorker(worker: Json, depth: number): Told[] {
  const id = asRecord(worker.worker)
  const wrap = (told: Told): Told => ({
    ...told,
    event: 'internal_worker',
    data: { worker: id, revision: worker.revision, event: { event: told.event, data: told.data } },
  })
  const entries = asArray(worker.entries)
  const status = asText(worker.status)
  const list = [...entries.flatMap(tellEntry)]
  if (status !== '') list.push({ event: 'status', data: { status } })
  if (status === 'running')
    for (const told of tellInFlight(asRecord(worker.in_flight), entries)) list.push(told)
  const own = list.map(wrap)
  if (depth >= 8) return own
  return [
    ...own,
    ...asArray(worker.internal_workers).flatMap(w => tellInternalWorker(asRecord(w), depth + 1)),
  ]
}

/** One log entry as the events that would have told it; nothing for what only measures or configures. */
function tellEntry(value: unknown): Told[] {
  const entry = asRecord(value)
  const time = typeof entry.ts === 'number' ? { time: entry.ts } : {}
  const told = tellEntryWithoutTime(entry)
  return told.map(t => ({ ...t, ...time }))
}

function tellEntryWithoutTime(entry: Json): Told[] {
  switch (entry.kind) {
    case 'segment_start':
      return [
        ...(asText(entry.system_prompt) === ''
          ? []
          : [{ event: 'system_prompt', data: { text: entry.system_prompt } }]),
        ...asArray(entry.history).flatMap(item => tellItem(asRecord(item))),
      ]
    case 'user_input':
      return [{ event: 'user_message', data: { segments: asArray(entry.segments) } }]
    case 'assistant_item':
    case 'tool_result':
      return tellItem(asRecord(entry.item))
    case 'system_item':
      return [{ event: 'system_item', data: { item: asRecord(entry.item) } }]
    case 'run_errored':
      return [
        { event: 'error', data: { code: 'run_errored', message: entry.message } },
        { event: 'run_end', data: {} },
      ]
    case 'run_completed':
      return [{ event: 'run_end', data: { result: entry.result } }]
    case 'invoke':
    case 'turn_end':
    case 'paused_turn_abandoned':
    case 'config_changed':
    case 'llm_usage':
    case 'extension':
      return []
    default:
      return [{ event: `log.${asText(entry.kind)}`, data: entry }]
  }
}

function tellItem(item: Json): Told[] {
  switch (item.kind) {
    case 'message':
      return tellMessage(item)
    case 'reasoning': {
      const parts = [asText(item.text), ...asArray(item.summary).map(asText)].filter(t => t !== '')
      return [{ event: 'thinking_done', data: { text: parts.join('\n') } }]
    }
    case 'tool_call':
      return [
        {
          event: 'tool_call_done',
          data: { id: item.call_id, name: item.name, arguments: item.arguments },
        },
      ]
    case 'tool_result':
      return [
        {
          event: 'tool_result',
          data: {
            id: item.call_id,
            summary: item.summary,
            ...(item.content !== undefined && { output: item.content }),
            is_error: item.is_error === true,
            ...(asArray(item.attachments).length > 0 && { attachments: item.attachments }),
          },
        },
      ]
    default:
      return [{ event: `item.${asText(item.kind)}`, data: item }]
  }
}

function tellMessage(item: Json): Told[] {
  const text = asArray(item.content)
    .map(part => asText(asRecord(part).text) || asText(asRecord(part).refusal))
    .join('')
  if (item.role === 'user')
    return [{ event: 'user_message', data: { segments: [{ kind: 'text', content: text }] } }]
  if (item.role === 'assistant') return [{ event: 'text_done', data: { text } }]
  return [{ event: 'system_item', data: { item: { kind: 'message', body: text } } }]
}

/**
 * `in_flight` is not reliable: blocks of earlier turns stay in it. Only the last block can be open; an
 * unfinished one before it, and all before that, are stale; a finished one whose text the log holds is told
 * already.
 */
function tellInFlight(inFlight: Json, entries: readonly unknown[]): Told[] {
  const blocks = asArray(inFlight.blocks).map(asRecord)
  const unfinished = (b: Json): boolean => b.kind !== 'tool_call' && b.finished !== true
  const stale = blocks.slice(0, -1).findLastIndex(unfinished)
  const logged = loggedTexts(entries)
  const calls = loggedCalls(entries)
  return [
    ...blocks.slice(stale + 1).flatMap(block => tellBlock(block, logged, calls)),
    ...asArray(inFlight.commands).flatMap(command => tellCommand(asRecord(command))),
  ]
}

function tellBlock(block: Json, logged: readonly string[], calls: ReadonlySet<string>): Told[] {
  const text = asText(block.text)
  if (block.kind === 'tool_call') {
    if (calls.has(asText(block.id))) return []
    return [{ event: 'tool_call_start', data: { id: block.id, name: block.name } }]
  }
  if (block.kind !== 'text' && block.kind !== 'thinking') return []
  if (block.finished === true)
    return logged.some(known => known.includes(text)) ? [] : [{ event: `${block.kind}_done`, data: { text } }]
  const start = block.kind === 'thinking' ? [{ event: 'thinking_start', data: {} }] : []
  return [...start, { event: `${block.kind}_delta`, data: { text } }]
}

function loggedTexts(entries: readonly unknown[]): string[] {
  return entries
    .flatMap(tellEntry)
    .flatMap(({ event, data }) =>
      event === 'text_done' || event === 'thinking_done' ? [asText(data.text)] : [],
    )
}

function loggedCalls(entries: readonly unknown[]): Set<string> {
  const ids = entries
    .flatMap(tellEntry)
    .flatMap(({ event, data }) => (event === 'tool_call_done' ? [asText(data.id)] : []))
  return new Set(ids)
}

function tellCommand(command: Json): Told[] {
  const { command_id, tool_call_id } = command
  const output = (stream: string, value: unknown): Told[] => {
    const { content, start_offset, end_offset, truncated } = asRecord(value)
    if (asText(content) === '') return []
    const data = { kind: 'output', command_id, stream, start_offset, end_offset, content, truncated }
    return [{ event: 'command', data: { event: data } }]
  }
  const started = { kind: 'started', command_id, tool_call_id, observed_at_ms: command.started_at_ms }
  const told: Told[] = [
    { event: 'command', data: { event: started } },
    ...output('stdout', command.stdout),
    ...output('stderr', command.stderr),
  ]
  if (command.status !== 'running') {
    const terminal = { kind: 'terminal', command_id, status: command.status, exit_code: command.exit_code }
    told.push({ event: 'command', data: { event: terminal } })
  }
  return told
}
