import {
  empty,
  executionRejected,
  type HttpAnswer,
  invalidRequest,
  invalidWorkerId,
  json,
  plain,
  refusal,
  workerNotFound,
} from './answer.ts'
import { createWorker } from './create-worker.ts'
import { errorEvent } from './events.ts'
import { type InputRequest, parseCompletionRequest, parseInputRequest } from './input-request.ts'
import { isObject, parseJson } from './json.ts'
import { compactionUnavailable, completionsFor, rewindTargets } from './methods.ts'
import type { EmbeddedRuntime } from './runtime.ts'
import type { EmbeddedWorker } from './worker.ts'
import { workerJson, workingDirectorySummary } from './worker-summary.ts'

export interface RestRequest {
  readonly method: string
  readonly path: string
  readonly contentType: string
  readonly body: string
}

type RuntimeHandler = (runtime: EmbeddedRuntime, request: RestRequest) => HttpAnswer
type WorkerHandler = (runtime: EmbeddedRuntime, request: RestRequest, worker: EmbeddedWorker) => HttpAnswer

const busyReason = 'Worker is already running; runtime adapter v0 does not queue input'
const needsUpgrade = (): HttpAnswer => plain(400, "Connection header did not include 'upgrade'")

const ack = (runtime: EmbeddedRuntime, worker: EmbeddedWorker, status: string): HttpAnswer => {
  const eventId = runtime.generation === 'events-ws' ? `,"event_id":${worker.lastEventId}` : ''
  return json(`{"ack":{"worker_ref":{"worker_id":${worker.idJson}},"status":"${status}"${eventId}}}`)
}

const runtimeSummary = (runtime: EmbeddedRuntime): HttpAnswer => {
  const workers = [...runtime.workers.values()]
  const count = (life: string): number => workers.filter(worker => worker.life === life).length
  return json({
    runtime: {
      display_name: runtime.displayName,
      backend: runtime.store === 'none' ? 'memory' : 'fs_store',
      status: 'running',
      worker_count: workers.length,
      active_worker_count: count('running'),
      stopped_worker_count: count('stopped'),
      cancelled_worker_count: count('cancelled'),
      diagnostic_count: runtime.diagnosticCount,
      ...(runtime.generation === 'events-ws'
        ? { limits: { max_event_batch_items: runtime.queueEvents } }
        : {}),
      os: 'linux',
      arch: 'x86_64',
      worker_creation_available: true,
    },
  })
}

const listWorkers = (runtime: EmbeddedRuntime): HttpAnswer =>
  json(
    `{"workers":[${[...runtime.workers.values()].map(worker => workerJson(worker, runtime.generation)).join(',')}]}`,
  )

const oneWorker: WorkerHandler = (runtime, _request, worker) =>
  json(`{"worker":${workerJson(worker, runtime.generation)}}`)

const listDirectories = (runtime: EmbeddedRuntime): HttpAnswer => {
  const one = (worker: EmbeddedWorker): string =>
    `{"summary":{${workingDirectorySummary(worker, runtime.generation)},"primary_worker_id":${worker.idJson}}}`
  return json(`{"working_directories":[${[...runtime.workers.values()].map(one).join(',')}]}`)
}

const restoreFailed = (worker: EmbeddedWorker): HttpAnswer =>
  executionRejected(
    worker.id,
    'Restore',
    'Errored',
    `failed to restore Worker from metadata: worker \`worker-runtime-${worker.id}\` is already allocated`,
  )

const performInput = (worker: EmbeddedWorker, input: InputRequest): void => {
  if (input.kind === 'user') {
    worker.start({ segments: input.segments, text: input.content, trigger: 'user_send' })
    return
  }
  if (input.kind === 'system' || input.kind === 'notify') {
    worker.start({ segments: [], text: input.content, trigger: 'system' })
    return
  }
  const { kind, content } = input
  const echo = {
    event: 'system_item',
    data: { item: { command: kind, content, kind: 'embedded_worker_command_input' } },
  }
  const unavailable = kind === 'compact' && worker.options.compaction === 'off'
  // The echo races with what the input causes (R25); these are the orders that were recorded.
  if (kind === 'register_peer')
    worker.say(errorEvent('invalid_request', `worker \`${content}\` does not exist`))
  if (unavailable) worker.say(compactionUnavailable(worker))
  worker.say(echo)
  if (kind === 'compact' && !unavailable) worker.compact()
  if (kind === 'list_rewind_targets') worker.say(rewindTargets(worker))
}

const input: WorkerHandler = (runtime, request, worker) => {
  if (request.contentType !== 'application/json' && request.body !== '') {
    const reason = 'Expected request with `Content-Type: application/json`'
    return refusal(400, 'invalid_json', `invalid JSON request body: ${reason}`)
  }
  const parsed = parseInputRequest(request.body, runtime.generation)
  if ('headers' in parsed) return parsed
  if (worker.life !== 'running') {
    if (runtime.generation === 'events-ws') return invalidRequest(`worker ${worker.id} is not running`)
    worker.life = 'stopped'
    return restoreFailed(worker)
  }
  if (worker.channelClosed) {
    const message = 'failed to send Worker method: channel closed'
    worker.runState = 'errored'
    worker.lastResult = { operation: 'input', outcome: 'errored', run_state: 'errored', message }
    return executionRejected(worker.id, 'Input', 'Errored', message)
  }
  if (worker.busy) {
    worker.lastResult = { operation: 'input', outcome: 'busy', run_state: 'busy', message: busyReason }
    return executionRejected(worker.id, 'Input', 'Busy', busyReason)
  }
  worker.lastEventId = runtime.takeEventId()
  const run_state = parsed.kind === 'list_rewind_targets' || parsed.kind === 'register_peer' ? 'idle' : 'busy'
  worker.runState = run_state
  worker.lastResult = { operation: 'input', outcome: 'accepted', run_state }
  performInput(worker, parsed)
  return ack(runtime, worker, 'running')
}

const lifecycle =
  (operation: 'stop' | 'cancel'): WorkerHandler =>
  (runtime, request, worker) => {
    if (request.body !== '' && !isObject(parseJson(request.body))) {
      const reason = 'key must be a string at line 1 column 2'
      return refusal(400, 'invalid_json', `invalid lifecycle request JSON: ${reason}`)
    }
    const later = runtime.generation === 'protocol-ws'
    if (worker.life === 'stopped' || (worker.life === 'cancelled' && !later))
      return ack(runtime, worker, worker.life)
    worker.lastEventId = runtime.takeEventId()
    if (operation === 'stop') worker.stop()
    else {
      worker.life = 'cancelled'
      worker.cancel()
      worker.runState = 'idle'
    }
    worker.lastResult = {
      operation,
      outcome: 'accepted',
      run_state: operation === 'stop' ? 'stopped' : 'idle',
    }
    return ack(runtime, worker, operation === 'stop' ? 'stopped' : 'cancelled')
  }

const completions: WorkerHandler = (_runtime, request, worker) => {
  const parsed = parseCompletionRequest(request.body)
  if ('headers' in parsed) return parsed
  const { prefix } = parsed
  const entries = worker.life === 'stopped' ? [] : completionsFor(prefix)
  return json({ kind: 'file', prefix, entries })
}

const deleteWorker: WorkerHandler = (runtime, _request, worker) => {
  if (worker.life !== 'stopped') {
    return invalidRequest(`worker ${worker.id} is running and must be stopped before deletion`)
  }
  runtime.deleteWorker(worker.id)
  return json(`{"worker":{"worker_id":${worker.idJson},"deleted":true}}`)
}

interface Route<H> {
  readonly only?: EmbeddedRuntime['generation']
  readonly methods: Readonly<Record<string, H>>
}

const runtimeRoutes: Readonly<Record<string, Route<RuntimeHandler>>> = {
  '/v1/runtime': { methods: { GET: runtimeSummary } },
  '/v1/workers': { methods: { GET: listWorkers, POST: createWorker } },
  '/v1/working-directories': { methods: { GET: listDirectories } },
  '/v1/config-bundles': { methods: { GET: () => json('{"bundles":[]}') } },
  '/v1/protocol/ws': { only: 'protocol-ws', methods: { GET: needsUpgrade } },
}

const workerRoutes: Readonly<Record<string, Route<WorkerHandler>>> = {
  '': { methods: { GET: oneWorker, DELETE: deleteWorker } },
  input: { methods: { POST: input } },
  stop: { methods: { POST: lifecycle('stop') } },
  cancel: { methods: { POST: lifecycle('cancel') } },
  completions: { methods: { POST: completions } },
  restore: { only: 'protocol-ws', methods: { POST: (_runtime, _request, worker) => restoreFailed(worker) } },
}

/** Asked plainly they miss the upgrade, before the worker is looked up (R8). */
const socketRoutes: Readonly<Record<string, Route<RuntimeHandler>>> = {
  'events/ws': { only: 'events-ws', methods: { GET: needsUpgrade } },
  'protocol/ws': { methods: { GET: needsUpgrade } },
}

const wrongMethod = (methods: readonly string[]): HttpAnswer =>
  empty(405, { allow: methods.flatMap(name => (name === 'GET' ? ['GET', 'HEAD'] : [name])).join(',') })

/** The handler of a route, or the empty 404 or 405 that stands for it. */
const choose = <H extends object>(
  runtime: EmbeddedRuntime,
  route: Route<H> | undefined,
  method: string,
): H | HttpAnswer => {
  if (!route || (route.only !== undefined && route.only !== runtime.generation)) return empty(404)
  return route.methods[method] ?? wrongMethod(Object.keys(route.methods))
}

const segmentsOf = (path: string): { readonly segment: string; readonly rest: string } | undefined => {
  const match = /^\/v1\/workers\/([^/]+)(?:\/(.+))?$/.exec(path)
  return match ? { segment: match[1] ?? '', rest: match[2] ?? '' } : undefined
}

/** The worker a path names, or the 400 or 404 that the Runtime gives instead. */
export const findWorker = (runtime: EmbeddedRuntime, segment: string): EmbeddedWorker | HttpAnswer => {
  let decoded = segment
  try {
    decoded = decodeURIComponent(segment)
  } catch {
    return invalidWorkerId()
  }
  const id = runtime.dialect.parseId(decoded)
  if (id === undefined) return invalidWorkerId()
  return runtime.workers.get(id) ?? workerNotFound(id)
}

/** Answers one request whose token was already checked. */
export const answerRest = (runtime: EmbeddedRuntime, request: RestRequest): HttpAnswer => {
  const named = segmentsOf(request.path)
  if (!named || socketRoutes[named.rest]) {
    const route = named ? socketRoutes[named.rest] : runtimeRoutes[request.path]
    const handler = choose(runtime, route, request.method)
    return typeof handler === 'function' ? handler(runtime, request) : handler
  }
  const handler = choose(runtime, workerRoutes[named.rest], request.method)
  if (typeof handler !== 'function') return handler
  const worker = findWorker(runtime, named.segment)
  return 'headers' in worker ? worker : handler(runtime, request, worker)
}

/** An upgrade on a path that is no socket route: what the same request would get plainly. */
export const wrongUpgrade = (runtime: EmbeddedRuntime, path: string): HttpAnswer =>
  answerRest(runtime, { method: 'GET', path, body: '', contentType: '' })
