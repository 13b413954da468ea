import { type HttpAnswer, invalidRequest, refusal } from './answer.ts'
import type { Generation } from './events.ts'
import { isObject, type Json, type JsonObject, parseJson, textAt } from './json.ts'

const inputKinds: Readonly<Record<Generation, readonly string[]>> = {
  'events-ws': ['user', 'system', 'compact', 'list_rewind_targets', 'register_peer'],
  'protocol-ws': ['user', 'notify', 'compact', 'list_rewind_targets', 'register_peer'],
}

export interface InputRequest {
  readonly kind: string
  readonly content: string
  readonly segments: readonly Json[]
}

const refusedJson = (reason: string): HttpAnswer =>
  refusal(400, 'invalid_json', `invalid JSON request body: ${reason}`)

const unparsable = (body: string, column: number): string => {
  const what = body === '' ? 'EOF while parsing a value' : 'EOF while parsing an object'
  return `Failed to parse the request body as JSON: ${what} at line 1 column ${column}`
}

/** A JSON object body, or the 400 that the Runtime's parser gives. */
export const parseBody = (body: string, expected: string): JsonObject | HttpAnswer => {
  const value = parseJson(body)
  if (value === undefined) return refusedJson(unparsable(body, body.length))
  if (isObject(value)) return value
  const what = Array.isArray(value)
    ? `invalid length ${value.length}`
    : `invalid type: ${JSON.stringify(value)}`
  return undeserializable(`${what}, expected struct ${expected}`, body.length)
}

export const undeserializable = (reason: string, column: number): HttpAnswer =>
  refusedJson(
    `Failed to deserialize the JSON body into the target type: ${reason} at line 1 column ${column}`,
  )

export const isAnswer = (value: JsonObject | HttpAnswer): value is HttpAnswer =>
  typeof value.status === 'number' && 'headers' in value

const columnAfter = (body: string, value: string): number => body.indexOf(`"${value}"`) + value.length + 2

/** `POST …/completions`: only the kind `file` exists. */
export const parseCompletionRequest = (body: string): { readonly prefix: string } | HttpAnswer => {
  const request = parseBody(body, 'CompletionRequest')
  if (isAnswer(request)) return request
  const kind = textAt(request, 'kind')
  if (request.kind === undefined) return undeserializable('missing field `kind`', body.length)
  if (kind !== 'file') {
    return undeserializable(`kind: unknown variant \`${kind}\`, expected \`file\``, columnAfter(body, kind))
  }
  return { prefix: textAt(request, 'prefix') }
}

/** `POST …/input`: unknown fields are ignored, everything else is checked in the Runtime's order (R9). */
export const parseInputRequest = (body: string, generation: Generation): InputRequest | HttpAnswer => {
  const request = parseBody(body, 'WorkerInput with 3 elements')
  if (isAnswer(request)) return request
  const kinds = inputKinds[generation]
  const kind = textAt(request, 'kind')
  if (request.kind !== undefined && !kinds.includes(kind)) {
    const expected = kinds.map(name => `\`${name}\``).join(', ')
    return undeserializable(
      `kind: unknown variant \`${kind}\`, expected one of ${expected}`,
      columnAfter(body, kind),
    )
  }
  for (const field of ['kind', 'content']) {
    if (typeof request[field] !== 'string') {
      return undeserializable(`missing field \`${field}\``, body.length)
    }
  }
  const given = request.segments
  if (given !== undefined && given !== null && !Array.isArray(given)) {
    return undeserializable(
      `segments: invalid type: string ${JSON.stringify(given)}, expected a sequence`,
      body.length,
    )
  }
  const content = textAt(request, 'content')
  if (Array.isArray(given)) {
    if (given.length === 0) return invalidRequest('worker input segments must not be empty')
    return { kind, content, segments: given }
  }
  const speaks = kind === 'user' || kind === 'system' || kind === 'notify'
  if (speaks && content.trim() === '') return invalidRequest('worker input content must not be empty')
  return { kind, content, segments: [{ kind: 'text', content }] }
}
