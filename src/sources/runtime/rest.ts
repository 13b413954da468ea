import { z } from 'zod'
import type { Clock } from '../../lib/clock.ts'
import { ShojiError } from '../../lib/error.ts'
import { parseJson } from '../../lib/json.ts'
import type { ListedWorker } from '../source.ts'
import { judgeAnswer } from './answers.ts'
import type { RuntimeLimits } from './limits.ts'

interface RestOptions {
  readonly url: string
  readonly token?: string
  readonly limits: Pick<RuntimeLimits, 'requestMs' | 'bodyBytes' | 'listedWorkers'>
  readonly clock: Clock
}

export interface Listing {
  readonly workers: readonly ListedWorker[]
  /** Rows past the limit, which were not read. */
  readonly beyondLimit: number
}

/**
 * The calls of one Runtime. They follow no redirect, end within `requestMs`, read at most `bodyBytes`, and
 * reject with a ShojiError whose message and facts hold neither the Runtime's address nor its words. The fact
 * `delivered` is `no` where the Runtime cannot have acted on the call, else `unknown`.
 */
export interface RuntimeRest {
  workers(signal: AbortSignal): Promise<Listing>
  worker(id: string, signal: AbortSignal): Promise<ListedWorker>
  /** Resolves when the Runtime has taken a user's message. `id` must come from a listing. */
  sendInput(id: string, content: string, signal: AbortSignal): Promise<void>
}

const workerId = z
  .union([z.string(), z.number().int().nonnegative(), z.bigint().nonnegative()])
  .transform(String)
  // A dot segment would lead out of its path even when it is encoded.
  .refine(id => /^[\x21-\x7e]{1,128}$/.test(id) && id !== '.' && id !== '..')

const profile = z
  .union([
    z.string(),
    z
      .object({ kind: z.string(), value: z.string() })
      // Policies match a profile by name; another kind of profile must not pass for a named one.
      .transform(({ kind, value }) => (kind === 'named' ? value : `${kind}:${value}`)),
  ])
  .nullable()
  .catch(null)

const row = z
  .object({
    worker_id: workerId,
    status: z.string(),
    profile,
    display_name: z.string().optional().catch(undefined),
  })
  .transform(
    (worker): ListedWorker => ({
      worker: worker.worker_id,
      profile: worker.profile,
      status: worker.status,
      ...(worker.display_name === undefined ? {} : { displayName: worker.display_name }),
    }),
  )

const listing = z.object({ workers: z.array(z.unknown()) })
const single = z.object({ worker: row })

/** Errors of a connection that never stood: the request was not sent. */
const NOT_SENT: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

/** The code that the system gave, and nothing of the message: it names the address. */
const systemCode = (error: unknown): string | undefined => {
  for (let at = error, depth = 0; at instanceof Error && depth < 4; at = at.cause, depth += 1) {
    if ('code' in at && typeof at.code === 'string') return at.code
  }
  return undefined
}

const readBody = async (response: Response, maxBytes: number): Promise<string> => {
  if (response.body === null) return ''
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength
    if (bytes > maxBytes)
      throw new ShojiError('upstream_protocol', 'the Runtime answered with too large a body', {
        facts: { maxBytes },
      })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

export const createRuntimeRest = ({ url, token, limits, clock }: RestOptions): RuntimeRest => {
  const base = url.replace(/\/+$/, '')
  const headers: Record<string, string> = {
    // A pooled socket of a Runtime that restarted fails in a way that leaves open whether a message arrived.
    connection: 'close',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  }

  /** Runs one exchange under a deadline that covers the body too; leaves neither timer nor listener. */
  const exchange = async (
    path: string,
    init: RequestInit,
    signal: AbortSignal,
  ): Promise<{ status: number; body: string }> => {
    const limit = new AbortController()
    const abort = () => limit.abort()
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) abort()
    void clock.after(limits.requestMs, limit.signal).then(abort)
    try {
      const response = await fetch(base + path, { ...init, redirect: 'manual', signal: limit.signal })
      return { status: response.status, body: await readBody(response, limits.bodyBytes) }
    } catch (error) {
      if (error instanceof ShojiError) throw error
      if (signal.aborted) throw new ShojiError('aborted', 'the call to the Runtime was given up')
      const code = systemCode(error)
      const delivered = code !== undefined && NOT_SENT.has(code) ? 'no' : 'unknown'
      const why = limit.signal.aborted ? 'timeout' : (code ?? 'connection_failed')
      throw new ShojiError('upstream_unreachable', 'the Runtime could not be reached', {
        facts: { why, delivered },
      })
    } finally {
      signal.removeEventListener('abort', abort)
      limit.abort()
    }
  }

  const call = async (path: string, init: RequestInit, signal: AbortSignal): Promise<string> => {
    const { status, body } = await exchange(
      path,
      { ...init, headers: { ...headers, ...init.headers } },
      signal,
    )
    if (status < 200 || status > 299) {
      throw new ShojiError(judgeAnswer(status, body), 'the Runtime refused a call', {
        facts: { status, delivered: status >= 500 ? 'unknown' : 'no' },
      })
    }
    return body
  }

  const read = <T>(schema: z.ZodType<T>, body: string): T => {
    let value: unknown
    try {
      value = parseJson(body)
    } catch {
      throw new ShojiError('upstream_protocol', 'the Runtime answered with something other than JSON')
    }
    const { data, success } = schema.safeParse(value)
    if (!success)
      throw new ShojiError('upstream_protocol', 'the Runtime answered in a form that is not known')
    return data
  }

  return {
    async workers(signal) {
      const rows = read(listing, await call('/v1/workers', {}, signal)).workers
      const workers = new Map<string, ListedWorker>()
      for (const value of rows.slice(0, limits.listedWorkers)) {
        // One row that cannot be read must not hide the others.
        const { data } = row.safeParse(value)
        if (data !== undefined) workers.set(data.worker, data)
      }
      return { workers: [...workers.values()], beyondLimit: Math.max(0, rows.length - limits.listedWorkers) }
    },
    async worker(id, signal) {
      return read(single, await call(`/v1/workers/${encodeURIComponent(id)}`, {}, signal)).worker
    },
    async sendInput(id, content, signal) {
      const body = JSON.stringify({ kind: 'user', content })
      const init = { method: 'POST', body, headers: { 'content-type': 'application/json' } }
      await call(`/v1/workers/${encodeURIComponent(id)}/input`, init, signal)
    },
  }
}
