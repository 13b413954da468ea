/** Requests beside the stream, and the typed error they reject with. */
import type { CommandRequest, Receipt } from '../commands.ts'
import type { ProblemCode } from '../errors.ts'
import type { HistoryPage } from '../pages.ts'
import type { CommandOptions, HistoryOptions, WorkerRef } from './types.ts'
import { workerUrl } from './urls.ts'

/**
 * An answer that is not what was asked for. `code` is one of the server's closed list, or `unreachable` where
 * no answer came (`status` 0), or `unreadable` where the answer was nothing the server would have said.
 */
export class ShojiProblem extends Error {
  readonly code: ProblemCode | 'unreachable' | 'unreadable'
  readonly status: number
  /** Id of the receipt, where a refused command has one. */
  readonly instance: string | undefined

  constructor(
    code: ShojiProblem['code'],
    status: number,
    detail: string,
    instance?: string,
    cause?: unknown,
  ) {
    super(detail, cause === undefined ? undefined : { cause })
    this.name = 'ShojiProblem'
    this.code = code
    this.status = status
    this.instance = instance
  }
}

export interface Requester {
  readonly base: string
  readonly fetch: typeof fetch
  readonly headers: () => Promise<Record<string, string>>
  /** Ends with the client. */
  readonly signal: AbortSignal
}

export async function sendCommand(
  to: Requester,
  worker: WorkerRef,
  request: CommandRequest,
  { idempotencyKey, signal }: CommandOptions = {},
): Promise<Receipt> {
  const headers = {
    'content-type': 'application/json',
    ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
  }
  const init = { method: 'POST', headers, body: JSON.stringify(request) }
  return (await ask(to, `${workerUrl(to.base, worker)}/commands`, init, signal)) as Receipt
}

export async function history(
  to: Requester,
  worker: WorkerRef,
  { before, limit, signal }: HistoryOptions = {},
): Promise<HistoryPage> {
  const query = new URLSearchParams()
  if (before != null) query.set('before', before)
  if (limit !== undefined) query.set('limit', String(limit))
  const url = `${workerUrl(to.base, worker)}/history?${query}`
  return (await ask(to, url, { headers: {} }, signal)) as HistoryPage
}

async function ask(
  to: Requester,
  url: string,
  init: RequestInit & { headers: Record<string, string> },
  signal: AbortSignal | undefined,
): Promise<unknown> {
  const ending = new AbortController()
  const end = (): void => ending.abort()
  const signals = [to.signal, ...(signal === undefined ? [] : [signal])]
  for (const s of signals) {
    s.addEventListener('abort', end)
    if (s.aborted) end()
  }
  try {
    const headers = { accept: 'application/json', ...init.headers, ...(await to.headers()) }
    const response = await to.fetch(url, { ...init, headers, signal: ending.signal })
    if (!response.ok) throw await problemOf(response)
    return await response.json()
  } catch (cause) {
    if (cause instanceof ShojiProblem) throw cause
    if (cause instanceof SyntaxError) throw new ShojiProblem('unreadable', 0, 'no JSON', undefined, cause)
    throw new ShojiProblem('unreachable', 0, 'no answer', undefined, cause)
  } finally {
    for (const s of signals) s.removeEventListener('abort', end)
  }
}

/** The problem document of an answer, whatever a proxy made of it. */
export async function problemOf(response: Response): Promise<ShojiProblem> {
  const { status } = response
  const document: unknown = await response.json().catch(() => undefined)
  const { code, detail, instance } = (document ?? {}) as Record<string, unknown>
  return typeof code === 'string'
    ? new ShojiProblem(code as ProblemCode, status, String(detail ?? code), instance as string | undefined)
    : new ShojiProblem('unreadable', status, `status ${status}`)
}
