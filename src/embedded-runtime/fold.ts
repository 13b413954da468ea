import type { RuntimeEvent } from './events.ts'
import {
  appendArgs,
  appendProse,
  applyCommand,
  finishCall,
  finishProse,
  markStale,
  startCall,
  startThinking,
} from './in-flight.ts'
import { arrayAt, isObject, type Json, type JsonObject, objectAt, textAt } from './json.ts'
import { commitMessage, dropMessage, usageEntry } from './log-message.ts'
import { compactionDone, segmentRotated } from './log-segment.ts'
import {
  appendEntry,
  beginRun,
  clearMessage,
  emptyLog,
  endRun,
  errored,
  historyKinds,
  invokeRun,
  type LogContext,
  runCompleted,
  type WorkerLog,
} from './worker-log.ts'

const trimInput = (segments: readonly Json[]): readonly Json[] =>
  segments.map((segment, index) => {
    if (!isObject(segment) || segment.kind !== 'text') return segment
    let content = textAt(segment, 'content')
    if (index === 0) content = content.trimStart()
    if (index === segments.length - 1) content = content.trimEnd()
    return { ...segment, content }
  })

const logUserInput = (log: WorkerLog, context: LogContext, data: JsonObject): void => {
  const run = invokeRun(log, context, 'user_send')
  const segments = trimInput(arrayAt(data, 'segments'))
  const key = JSON.stringify(segments)
  const seen = run.inputs.get(key) ?? 0
  run.inputs.set(key, seen + 1)
  // The later Runtime tells each input twice, as echo and from the log (R47): one of the two is logged.
  if (context.generation === 'protocol-ws' && seen % 2 === 1) return
  const extensions =
    context.generation === 'protocol-ws' && context.internal !== true
      ? {
          extensions: [{ domain: 'worker.input-submission.v1', payload: { submission_id: context.newId() } }],
        }
      : {}
  appendEntry(log, context, { kind: 'user_input', segments, ...extensions })
}

export const notification = (message: string): JsonObject => ({
  kind: 'notification',
  message,
  body: `[Notification]\n${message}\n\nThis is a notification, not a blocking request. If you are in the middle of a task, continue your current work and address this at a natural stopping point.`,
})

const systemItem = (log: WorkerLog, context: LogContext, item: JsonObject): void => {
  const kind = textAt(item, 'kind')
  if (kind === 'embedded_worker_command_input') return
  if (kind === 'embedded_worker_system_input') {
    invokeRun(log, context, 'notify')
    appendEntry(log, context, { kind: 'system_item', item: notification(textAt(item, 'content')) })
    return
  }
  appendEntry(log, context, { kind: 'system_item', item })
}

const toolResult = (log: WorkerLog, context: LogContext, data: JsonObject): void => {
  const output = data.output
  appendEntry(log, context, {
    kind: 'tool_result',
    item: {
      kind: 'tool_result',
      call_id: textAt(data, 'id'),
      summary: textAt(data, 'summary'),
      ...(typeof output === 'string' ? { content: output } : {}),
      ...(data.is_error === true ? { is_error: true } : {}),
    },
  })
}

const runEnd = (log: WorkerLog, context: LogContext, result: string): void => {
  const run = log.run
  if (!run) return
  if (result === 'rolled_back') {
    log.entries.length = Math.min(log.entries.length, run.firstEntry)
    log.history = run.historyBefore
    log.run = undefined
  } else if (result === 'paused') endRun(log, context, errored('Cancelled'))
  else endRun(log, context, runCompleted(result))
}

const statusChanged = (log: WorkerLog, context: LogContext, activity: string): void => {
  if (activity === 'running') {
    log.activity = 'running'
    return
  }
  log.activity = activity === 'paused' ? 'paused' : 'idle'
  if (log.run?.error !== undefined) endRun(log, context, errored(log.run.error))
  // The run of an internal worker ends without a run_end on the stream.
  else if (log.run && !log.inCall && context.internal) endRun(log, context, runCompleted('finished'))
  log.run = undefined
  log.inCall = false
  dropMessage(log, context)
}

const foldChild = (log: WorkerLog, context: LogContext, data: JsonObject): void => {
  const worker = objectAt(data, 'worker')
  const event = objectAt(data, 'event')
  const id = textAt(worker, 'session_id')
  const child = log.children.get(id) ?? { worker, revision: 0, log: emptyLog() }
  child.worker = worker
  child.revision = typeof data.revision === 'number' ? data.revision : child.revision
  log.children.set(id, child)
  const nested = event.data
  const inner = { event: textAt(event, 'event'), ...(isObject(nested) ? { data: nested } : {}) }
  foldEvent(child.log, { ...context, internal: true }, inner, JSON.stringify(inner))
}

type Fold = (log: WorkerLog, context: LogContext, data: JsonObject, json: string) => void

const spoke = (log: WorkerLog): void => {
  if (log.run) log.run.output = true
}

const folds: Readonly<Record<string, Fold>> = {
  text_delta: (log, _context, data) => {
    spoke(log)
    appendProse(log.flight, 'text', textAt(data, 'text'))
  },
  text_done: (log, _context, data) => {
    spoke(log)
    finishProse(log.flight, 'text', textAt(data, 'text'))
    log.texts.push(textAt(data, 'text'))
  },
  thinking_start: log => {
    spoke(log)
    startThinking(log.flight)
  },
  thinking_delta: (log, _context, data) => {
    spoke(log)
    appendProse(log.flight, 'thinking', textAt(data, 'text'))
  },
  thinking_done: (log, _context, data) => {
    spoke(log)
    finishProse(log.flight, 'thinking', textAt(data, 'text'))
    log.reasoning.push(textAt(data, 'text'))
  },
  tool_call_start: (log, _context, data) => {
    spoke(log)
    startCall(log.flight, textAt(data, 'id'), textAt(data, 'name'))
  },
  tool_call_args_delta: (log, _context, data) =>
    appendArgs(log.flight, textAt(data, 'id'), textAt(data, 'json')),
  tool_call_done: (log, _context, data) => {
    spoke(log)
    finishCall(log.flight, textAt(data, 'id'))
    log.calls.push({ id: textAt(data, 'id'), name: textAt(data, 'name'), args: textAt(data, 'arguments') })
  },
  tool_result: (log, context, data) => toolResult(log, context, data),
  user_message: (log, context, data) => logUserInput(log, context, data),
  system_item: (log, context, data) => systemItem(log, context, objectAt(data, 'item')),
  invoke_start: (log, context, data) => {
    invokeRun(log, context, textAt(data, 'kind'))
  },
  turn_start: (log, context) => {
    beginRun(log, context)
  },
  turn_end: log => {
    log.turns += 1
  },
  llm_call_start: (log, context) => {
    log.inCall = true
    markStale(log.flight)
    clearMessage(log, context.generation === 'events-ws')
  },
  llm_call_end: (log, context) => {
    log.inCall = false
    log.llmCalls += 1
    // A block that still streams now was cut, and never enters the log (R27).
    commitMessage(log, context)
  },
  llm_retry: (log, context) => dropMessage(log, context),
  usage: (log, context, _data, json) => {
    log.run?.usages.push(usageEntry(log, context, json))
  },
  run_end: (log, context, data) => runEnd(log, context, textAt(data, 'result')),
  error: (log, _context, data) => {
    if (log.run) log.run.error = textAt(data, 'message')
  },
  status: (log, context, data) => statusChanged(log, context, textAt(data, 'status')),
  command: (log, _context, data) => applyCommand(log.flight, objectAt(data, 'event')),
  compact_done: (log, context, data) => compactionDone(log, context, textAt(data, 'new_segment_id')),
  segment_rotated: (log, _context, data) => segmentRotated(log, objectAt(data, 'entry')),
  rewind_applied: (log, context, data) => {
    const entries = arrayAt(data, 'entries')
    log.entries = entries.map(entry => JSON.stringify(entry))
    log.history = entries.filter(entry => historyKinds.has(textAt(entry, 'kind'))).length
    log.turns = entries.filter(entry => textAt(entry, 'kind') === 'run_completed').length
    log.run = undefined
    dropMessage(log, context)
  },
  internal_worker: (log, context, data) => foldChild(log, context, data),
  internal_worker_removed: (log, _context, data) => {
    log.children.delete(textAt(objectAt(data, 'worker'), 'session_id'))
  },
}

const noData: JsonObject = {}

/** Folds one published event into the log; `json` is its text as it was published. Unknown events change nothing. */
export const foldEvent = (log: WorkerLog, context: LogContext, event: RuntimeEvent, json: string): void =>
  folds[event.event]?.(log, context, event.data ?? noData, json)
