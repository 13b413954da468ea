import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import type { ErrorCode } from '../../lib/error.ts'
import type { EndCode } from './ends.ts'

const refusal = z.object({ error: z.object({ code: z.string() }) })

/** The code of a Runtime's JSON error; undefined where the body is empty, plain text or something else. */
const refusalCode = (body: string): string | undefined => {
  if (!body.startsWith('{')) return undefined
  try {
    return refusal.safeParse(JSON.parse(body)).data?.error.code
  } catch {
    return undefined
  }
}

/**
 * Our code for a Runtime's answer that is not the one asked for, from the status and its own code, never
 * from its words: it tells a busy worker from other refusals by them alone (R7), and so they stay one code.
 */
export const judgeAnswer = (status: number, body: string): ErrorCode => {
  if (status === 401 || status === 403) return 'upstream_unauthorized'
  const code = refusalCode(body)
  if (status === 404) {
    if (code === 'worker_not_found') return 'upstream_worker_gone'
    // A missing route has no body (R8). A page is some other server's.
    return body === '' ? 'upstream_route_missing' : 'upstream_protocol'
  }
  if (status === 405) return 'upstream_route_missing'
  if (status === 409 && code === 'worker_execution_rejected') return 'worker_busy'
  if (status === 400 && code !== undefined) return 'bad_request'
  if (status >= 500) return 'upstream_unreachable'
  return 'upstream_protocol'
}

/** The same for a refused upgrade. */
export const endOfAnswer = (status: number, body: string): EndCode => {
  switch (judgeAnswer(status, body)) {
    case 'upstream_unauthorized':
      return 'unauthorized'
    case 'upstream_worker_gone':
      return 'worker_gone'
    case 'upstream_route_missing':
      return 'route_missing'
    case 'upstream_unreachable':
      return 'unreachable'
    default:
      return 'refused'
  }
}

const REFUSAL_BYTES = 8 * 1_024

/**
 * Reads the body of a refused upgrade, as much of it as a refusal needs, and tells it once. One that does not
 * end runs into the time limit of the opening.
 */
export const readRefusal = (response: IncomingMessage, done: (body: string) => void): void => {
  const chunks: Buffer[] = []
  let bytes = 0
  const judge = () => {
    response.removeAllListeners()
    response.on('error', () => undefined)
    done(Buffer.concat(chunks).toString('utf8'))
  }
  response.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > REFUSAL_BYTES) judge()
  })
  response.on('end', judge)
  response.on('close', judge)
  response.on('error', judge)
}
