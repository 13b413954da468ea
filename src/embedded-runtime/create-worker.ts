import { executionRejected, type HttpAnswer, invalidRequest, json, refusal } from './answer.ts'
import { isUuidV7 } from './ids.ts'
import { isAnswer, parseBody, undeserializable } from './input-request.ts'
import { arrayAt, isObject, objectAt, textAt } from './json.ts'
import type { RestRequest } from './rest.ts'
import type { EmbeddedRuntime } from './runtime.ts'
import { workerJson } from './worker-summary.ts'

const createFields = {
  'events-ws': ['profile', 'profile_source'],
  'protocol-ws': ['worker_id', 'create_fingerprint', 'profile', 'profile_source'],
}

/** All that a worker without a working directory has (R3). */
const taskTools = ['TaskCreate', 'TaskGet', 'TaskList', 'TaskUpdate']

/** `POST /v1/workers`, checked in the Runtime's order; what an archive holds is not looked into. */
export const createWorker = (runtime: EmbeddedRuntime, request: RestRequest): HttpAnswer => {
  if (request.contentType !== 'application/json') {
    const reason = 'Expected request with `Content-Type: application/json`'
    return refusal(400, 'invalid_json', `invalid JSON request body: ${reason}`)
  }
  const body = parseBody(request.body, 'CreateWorkerRequest')
  if (isAnswer(body)) return body
  for (const field of createFields[runtime.generation]) {
    if (body[field] === undefined) return undeserializable(`missing field \`${field}\``, request.body.length)
  }
  const workerId = textAt(body, 'worker_id')
  const later = runtime.generation === 'protocol-ws'
  if (later && !isUuidV7(workerId)) {
    return undeserializable('worker_id: Worker id must be a UUIDv7', request.body.indexOf(workerId))
  }
  if (later && runtime.workers.has(workerId)) {
    return invalidRequest(`worker ${workerId} was already created with a different fingerprint`)
  }
  const archive = objectAt(objectAt(body, 'profile_source'), 'archive')
  const reference = objectAt(archive, 'reference')
  const digest = textAt(reference, 'digest')
  if (!/^sha256:[0-9a-f]{64}$/.test(digest)) {
    return invalidRequest(
      `profile_source archive is invalid: profile source archive digest mismatch for ${textAt(reference, 'id')}: expected ${digest}, got sha256:${'0'.repeat(64)}`,
    )
  }
  const input = body.initial_input
  if (isObject(input) && textAt(input, 'kind') !== 'user') {
    return refusal(400, 'invalid_initial_input_kind', 'initial worker input must be user input, got System')
  }
  if (isObject(input) && textAt(input, 'content').trim() === '') {
    return invalidRequest('initial_input.content must not be empty')
  }
  const profile = textAt(objectAt(body, 'profile'), 'value')
  if (objectAt(objectAt(reference, 'source_graph'), 'entrypoints')[profile] === undefined) {
    const id = later ? workerId : runtime.failCreate()
    const reason = `failed to resolve profile source archive: profile source archive has no entrypoint for selector ${profile}`
    return executionRejected(id, 'Spawn', 'Errored', reason)
  }
  const displayName = textAt(body, 'display_name')
  const worker = runtime.addWorker({
    profile,
    ...(later ? { workerId } : {}),
    ...(displayName === '' ? {} : { displayName }),
    ...(isObject(body.working_directory_request) ? {} : { cwd: '', tools: taskTools }),
  })
  if (isObject(input)) {
    const content = textAt(input, 'content')
    const given = arrayAt(input, 'segments')
    worker.start({
      segments: given.length > 0 ? given : [{ kind: 'text', content }],
      text: content,
      trigger: 'initial',
    })
    worker.lastResult = { operation: 'input', outcome: 'accepted', run_state: 'busy' }
  }
  return json(`{"worker":${workerJson(worker, runtime.generation)}}`)
}
