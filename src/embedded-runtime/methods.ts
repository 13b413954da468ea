import { errorEvent, type Generation, type RuntimeEvent } from './events.ts'
import { arrayAt, isObject, type Json, type JsonObject, objectAt, parseJson, textAt } from './json.ts'
import { inputText } from './turns.ts'
import type { EmbeddedWorker } from './worker.ts'

const methods = [
  'run',
  'notify',
  'worker_event',
  'resume',
  'cancel',
  'pause',
  'compact',
  'list_rewind_targets',
  'rewind_to',
  'shutdown',
  'list_completions',
  'list_workers',
  'restore_worker',
  'register_peer',
]

const needsParams = new Set([
  'run',
  'notify',
  'worker_event',
  'rewind_to',
  'list_completions',
  'restore_worker',
  'register_peer',
])

/** The files that completions offer: one small repository. */
const files = [
  { value: 'src', is_dir: true },
  { value: '.git', is_dir: false },
  { value: 'README.md', is_dir: false },
  { value: 'src/main.ts', is_dir: false },
]

export const completionsFor = (prefix: string): JsonObject[] =>
  files.filter(file => file.value.startsWith(prefix) && !file.value.slice(prefix.length).includes('/'))

/** The inputs of the log that a rewind can go back to, the newest first. */
export const rewindTargets = (worker: EmbeddedWorker): RuntimeEvent => {
  const entries = worker.entries.map(entry => parseJson(entry))
  const head = entries.length
  const targets: JsonObject[] = []
  entries.forEach((entry, index) => {
    if (textAt(entry, 'kind') !== 'user_input') return
    targets.unshift({
      id: { segment_id: worker.log.segmentId, user_input_entry_index: index },
      expected_head_entries: head,
      truncate_entries: index - 1,
      turn_index: targets.length + 1,
      timestamp_ms: isObject(entry) && typeof entry.ts === 'number' ? entry.ts : 0,
      preview: inputText(arrayAt(entry, 'segments')).slice(0, 80),
      eligible: true,
    })
  })
  return { event: 'rewind_targets', data: { head_entries: head, targets } }
}

const rewind = (worker: EmbeddedWorker, params: JsonObject): void => {
  const entries = worker.entries.map(entry => parseJson(entry) ?? null)
  const index = objectAt(params, 'target').user_input_entry_index
  const at = typeof index === 'number' ? index : -1
  if (params.expected_head_entries !== entries.length || textAt(entries[at], 'kind') !== 'user_input') {
    worker.say(errorEvent('invalid_request', 'rewind target is stale'))
    return
  }
  const kept = entries.slice(0, Math.max(1, at - 1))
  const summary = {
    truncated_to_entries: kept.length,
    discarded_entries: entries.length - kept.length,
    tool_side_effect_warning: false,
  }
  // The log has its keys sorted, the event begins with the kind.
  const segments = arrayAt(entries[at], 'segments').map(segment =>
    isObject(segment) ? { kind: textAt(segment, 'kind'), ...segment } : segment,
  )
  worker.say({
    event: 'rewind_applied',
    data: { entries: kept, input: segments, summary },
  })
  worker.say({ event: 'status', data: { status: 'idle' } })
}

const noSuchWorker = (name: string): RuntimeEvent =>
  errorEvent('invalid_request', `worker \`${name}\` does not exist`)

const workersListed = (worker: EmbeddedWorker): RuntimeEvent => {
  const name = `worker-runtime-${worker.id}`
  const one = {
    active: { segment_id: worker.log.segmentId, session_id: worker.context.newId() },
    comm_registry: { registered: false },
    live: { reachable: true, socket_path: `${worker.cwd}/${name}/sock`, status: worker.activity },
    restore: {
      possible: false,
      reason: `segment is currently locked by \`${name}\` (pid 1)`,
      restore_name: name,
    },
    spawned_children: { count: 0, reachable: 0, unreachable: 0 },
    state: 'readable',
    visibility: 'self_worker',
    worker_name: name,
  }
  return { event: 'workers_listed', data: { workers: [one] } }
}

/** The first generation's catalog goes on saying `running` (R4); the next input finds a closed channel. */
const shutDown = (worker: EmbeddedWorker, generation: Generation): void => {
  if (worker.activity === 'running') worker.cancel()
  worker.say({ event: 'shutdown' })
  worker.runState = 'stopped'
  worker.lastResult = { operation: 'protocol_method', outcome: 'accepted', run_state: 'stopped' }
  worker.channelClosed = true
  if (generation === 'protocol-ws') worker.life = 'stopped'
}

const compact = (worker: EmbeddedWorker): void => {
  if (worker.options.compaction !== 'off') worker.compact()
  else worker.say(compactionUnavailable(worker))
}

export const compactionUnavailable = (worker: EmbeddedWorker): RuntimeEvent => ({
  event: 'alert',
  data: {
    level: 'warn',
    source: 'compactor',
    message: 'manual compact is unavailable because [compaction] is not configured',
    timestamp_ms: worker.context.now(),
  },
})

const perform = (
  worker: EmbeddedWorker,
  generation: Generation,
  method: string,
  params: JsonObject,
): void => {
  if (method === 'run') {
    const segments: readonly Json[] = arrayAt(params, 'input')
    worker.start({ segments, text: inputText(segments), trigger: 'method' })
  } else if (method === 'notify' || method === 'worker_event') {
    const text = textAt(params, 'message') || `worker \`${textAt(params, 'worker_name')}\` finished a turn`
    if (params.auto_run !== false) worker.start({ segments: [], text, trigger: 'notify' })
  } else if (method === 'resume') worker.resume()
  else if (method === 'cancel') worker.cancel()
  else if (method === 'pause') worker.pause()
  else if (method === 'compact') compact(worker)
  else if (method === 'list_rewind_targets') worker.say(rewindTargets(worker))
  else if (method === 'rewind_to') rewind(worker, params)
  else if (method === 'list_workers') worker.say(workersListed(worker))
  else if (method === 'shutdown') shutDown(worker, generation)
  else if (method === 'restore_worker') {
    worker.say(errorEvent('invalid_request', `worker state missing for \`${textAt(params, 'name')}\``))
  } else worker.say(noSuchWorker(textAt(params, 'name')))
}

const refused = (reason: string): RuntimeEvent => errorEvent('internal', reason)

const malformed = (text: string): { readonly method: string; readonly params: JsonObject } | RuntimeEvent => {
  const frame = parseJson(text)
  const prefix = 'malformed protocol method frame: '
  if (frame === undefined) return refused(`${prefix}expected ident at line 1 column 2`)
  const method = textAt(frame, 'method')
  if (!isObject(frame) || method === '')
    return refused(`${prefix}missing field \`method\` at line 1 column ${text.length}`)
  if (!methods.includes(method)) {
    const expected = methods.map(name => `\`${name}\``).join(', ')
    return refused(
      `${prefix}unknown variant \`${method}\`, expected one of ${expected} at line 1 column ${text.length}`,
    )
  }
  if (needsParams.has(method) && !isObject(frame.params)) {
    return refused(`${prefix}missing field \`params\` at line 1 column ${text.length}`)
  }
  return { method, params: objectAt(frame, 'params') }
}

/** In the first generation a busy worker takes only these; a paused one only `cancel` (R36). */
const takenWhileBusy = (worker: EmbeddedWorker, method: string, generation: Generation): boolean => {
  if (!worker.busy) return true
  if (worker.activity === 'paused')
    return method === 'cancel' || (generation === 'protocol-ws' && method === 'resume')
  return method === 'cancel' || method === 'pause' || method === 'shutdown'
}

/**
 * One frame of a `protocol/ws` connection. Returns what is said to this connection alone; all other
 * results are events of the worker, for everybody.
 */
export const handleMethod = (
  worker: EmbeddedWorker,
  generation: Generation,
  text: string,
): RuntimeEvent | undefined => {
  const request = malformed(text)
  if ('event' in request) return request
  const { method, params } = request
  if (method === 'list_completions') {
    return { event: 'completions', data: { kind: 'file', entries: completionsFor(textAt(params, 'prefix')) } }
  }
  if (worker.life !== 'running') return refused(`invalid request: worker ${worker.id} is not running`)
  if (!takenWhileBusy(worker, method, generation)) {
    return refused(
      `worker ${worker.id} execution ProtocolMethod returned Busy: Worker is already running; runtime adapter v0 does not queue protocol methods`,
    )
  }
  worker.lastResult = { operation: 'protocol_method', outcome: 'accepted', run_state: 'idle' }
  perform(worker, generation, method, params)
  return undefined
}
