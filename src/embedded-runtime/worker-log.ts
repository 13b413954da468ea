import type { Generation, WorkerActivity } from './events.ts'
import { emptyInFlight, type InFlight, inFlightJson } from './in-flight.ts'
import { type JsonObject, sortedObject, sortKeys, textAt } from './json.ts'

export interface LogContext {
  readonly generation: Generation
  readonly now: () => number
  readonly newId: () => string
  readonly systemPrompt: string
  /** The log of an internal worker: its inputs were not submitted by a client. */
  readonly internal?: boolean
}

export interface Run {
  /** Where the log is cut when the run is rolled back. */
  readonly firstEntry: number
  readonly historyBefore: number
  readonly usages: string[]
  readonly inputs: Map<string, number>
  invoked: boolean
  error: string | undefined
  output: boolean
}

interface InternalWorker {
  worker: JsonObject
  revision: number
  readonly log: WorkerLog
}

/**
 * A worker's session log, and the state a snapshot shows: what `foldEvent` makes of the events that were
 * published, in the shapes, the order and the key order of the recordings.
 */
export interface WorkerLog {
  entries: string[]
  flight: InFlight
  activity: WorkerActivity
  run: Run | undefined
  inCall: boolean
  /** The parts of the message that streams; they enter the log when the call ends. */
  reasoning: string[]
  texts: string[]
  calls: { id: string; name: string; args: string }[]
  history: number
  /** Turns and model calls that ended: the numbers that the next ones get (R28). */
  turns: number
  llmCalls: number
  interrupted: boolean
  segmentId: string
  readonly children: Map<string, InternalWorker>
}

export const emptyLog = (): WorkerLog => ({
  entries: [],
  flight: emptyInFlight(),
  activity: 'idle',
  run: undefined,
  inCall: false,
  reasoning: [],
  texts: [],
  calls: [],
  history: 0,
  turns: 0,
  llmCalls: 0,
  interrupted: false,
  segmentId: '',
  children: new Map(),
})

export const historyKinds = new Set(['user_input', 'assistant_item', 'tool_result', 'system_item'])

/** Appends one log entry, keys sorted; `ts` is added unless the entry has one. */
export const appendEntry = (log: WorkerLog, context: LogContext, entry: JsonObject): void => {
  const kind = textAt(entry, 'kind')
  if (historyKinds.has(kind)) log.history += 1
  log.entries.push(JSON.stringify(sortKeys({ ts: context.now(), ...entry })))
}

const noConfig = {
  max_tokens: null,
  reasoning: null,
  stop_sequences: [],
  temperature: null,
  top_k: null,
  top_p: null,
}

/** Keys sorted already: a live `segment_rotated` shows the entry as the log has it. */
export const segmentStart = (context: LogContext, more: JsonObject = {}): JsonObject =>
  sortedObject({
    kind: 'segment_start',
    session_id: context.newId(),
    system_prompt: context.systemPrompt,
    config: noConfig,
    history: [],
    ts: context.now(),
    ...more,
  })

export const interruptItem = {
  kind: 'interrupt',
  body: "[The previous turn was interrupted by the user. The user's next request follows.]",
}

/** What the Runtime logs when a paused turn is given up. */
export const abandonPausedTurn = (log: WorkerLog, context: LogContext): void => {
  appendEntry(log, context, { kind: 'system_item', item: interruptItem })
  appendEntry(log, context, { kind: 'paused_turn_abandoned' })
  log.interrupted = false
}

const ensureSegment = (log: WorkerLog, context: LogContext): void => {
  if (log.entries.length > 0) return
  log.segmentId = context.newId()
  appendEntry(log, context, segmentStart(context))
}

export const beginRun = (log: WorkerLog, context: LogContext): Run => {
  if (log.run) return log.run
  ensureSegment(log, context)
  log.run = {
    firstEntry: log.entries.length,
    historyBefore: log.history,
    usages: [],
    inputs: new Map(),
    invoked: false,
    error: undefined,
    output: false,
  }
  return log.run
}

/** The log's `invoke`, once a run. In the later generation the interrupt before it is an event of its own. */
export const invokeRun = (log: WorkerLog, context: LogContext, trigger: string): Run => {
  const run = beginRun(log, context)
  if (run.invoked) return run
  run.invoked = true
  if (log.interrupted && context.generation === 'events-ws') {
    appendEntry(log, context, { kind: 'system_item', item: interruptItem })
  }
  log.interrupted = false
  appendEntry(log, context, { kind: 'invoke', trigger })
  return run
}

export const endRun = (log: WorkerLog, context: LogContext, outcome: JsonObject): void => {
  const run = log.run
  if (!run) return
  log.run = undefined
  appendEntry(log, context, { kind: 'turn_end', turn_count: log.turns })
  for (const usage of run.usages) log.entries.push(usage)
  appendEntry(log, context, outcome)
  log.interrupted = outcome.interrupted === true
}

export const errored = (message: string): JsonObject => ({ kind: 'run_errored', message, interrupted: true })

export const runCompleted = (result: string): JsonObject => ({
  kind: 'run_completed',
  result,
  interrupted: false,
})
export const clearMessage = (log: WorkerLog, keepReasoning: boolean): void => {
  if (!keepReasoning) log.reasoning = []
  log.texts = []
  log.calls = []
}

/** What a Runtime that died in mid-run finds at its next start: no end of the run, nothing in flight (R41). */
export const loseUnwritten = (log: WorkerLog): void => {
  log.flight = emptyInFlight()
  log.activity = 'idle'
  log.run = undefined
  log.inCall = false
  log.llmCalls = 0
  log.children.clear()
  clearMessage(log, false)
}

const childJson = (child: InternalWorker): string => {
  const flight = inFlightJson(child.log.flight)
  return `{"worker":${JSON.stringify(child.worker)},"revision":${child.revision},"entries":[${child.log.entries.join(',')}],"status":"${child.log.activity}"${flight === undefined ? '' : `,"in_flight":${flight}`}${childrenJson(child.log)}}`
}

const childrenJson = (log: WorkerLog): string =>
  log.children.size > 0 ? `,"internal_workers":[${[...log.children.values()].map(childJson).join(',')}]` : ''

/** The `data` of a snapshot event. */
export const snapshotData = (log: WorkerLog, greeting: string): string => {
  const flight = inFlightJson(log.flight)
  return `{"entries":[${log.entries.join(',')}],"greeting":${greeting},"status":"${log.activity}"${flight === undefined ? '' : `,"in_flight":${flight}`}${childrenJson(log)}}`
}
