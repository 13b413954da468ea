import type { Json } from './json.ts'

export interface HttpAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export const json = (body: Json | string, status = 200): HttpAnswer => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: typeof body === 'string' ? body : JSON.stringify(body),
})

export const plain = (status: number, text: string): HttpAnswer => ({
  status,
  headers: { 'content-type': 'text/plain; charset=utf-8' },
  body: text,
})

/** Unknown routes and wrong methods say nothing (R8). */
export const empty = (status: number, headers: Readonly<Record<string, string>> = {}): HttpAnswer => ({
  status,
  headers,
  body: '',
})

export const refusal = (status: number, code: string, message: string): HttpAnswer =>
  json({ error: { code, message } }, status)

export const unauthorized = (): HttpAnswer =>
  refusal(401, 'unauthorized', 'missing or invalid local Runtime bearer token')

export const workerNotFound = (workerId: string): HttpAnswer =>
  refusal(404, 'worker_not_found', `worker ${workerId} was not found`)

export const invalidWorkerId = (): HttpAnswer =>
  refusal(400, 'invalid_worker_id', 'worker_id must be an unsigned integer')

export const invalidRequest = (reason: string): HttpAnswer =>
  refusal(400, 'invalid_request', `invalid request: ${reason}`)

export const executionRejected = (
  workerId: string,
  operation: string,
  outcome: string,
  reason: string,
): HttpAnswer =>
  refusal(
    409,
    'worker_execution_rejected',
    `worker ${workerId} execution ${operation} returned ${outcome}: ${reason}`,
  )

const statusTexts: Readonly<Record<number, string>> = {
  200: 'OK',
  400: 'Bad Request',
  401: 'Unauthorized',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
}

/** The answer as bytes on a bare socket: an upgrade that is refused. */
export const rawAnswer = (answer: HttpAnswer): string => {
  const headers = {
    ...answer.headers,
    'content-length': String(Buffer.byteLength(answer.body)),
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return `HTTP/1.1 ${answer.status} ${statusTexts[answer.status] ?? 'Status'}\r\n${lines.join('\r\n')}\r\n\r\n${answer.body}`
}
