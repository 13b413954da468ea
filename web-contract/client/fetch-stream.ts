import { endedBy } from './answer.ts'
import type { Attempt, Ended } from './attempt.ts'
import { ShojiProblem } from './requests.ts'
import { createSseParser } from './sse.ts'

export interface FetchStreamOptions {
  readonly fetch: typeof fetch
  readonly headers: () => Promise<Record<string, string>>
}

/** One connection by `fetch`. Never rejects. */
export async function fetchStream(attempt: Attempt, options: FetchStreamOptions): Promise<Ended> {
  const { signal } = attempt
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  let reached = false
  try {
    const position = attempt.position()
    // A header holds visible ASCII; an id that holds more travels in the query.
    const fits = position !== null && /^[!-~]+$/.test(position)
    const response = await options.fetch(attempt.url(fits ? undefined : (position ?? undefined)), {
      headers: {
        accept: 'text/event-stream',
        ...(fits && { 'last-event-id': position }),
        ...(await options.headers()),
      },
      cache: 'no-store',
      signal,
    })
    reached = true
    const ended = await endedBy(response)
    if (ended !== undefined) {
      response.body?.cancel().catch(() => {})
      return ended
    }
    reader = response.body?.getReader()
    if (reader === undefined) return { why: 'lost' }
    const parser = createSseParser(attempt.onEvent, attempt.onRetry)
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return { why: 'lost' }
      attempt.onBytes()
      parser.push(value)
    }
  } catch (cause) {
    if (cause instanceof ShojiProblem) return { why: 'refused', problem: cause }
    return { why: reached ? 'lost' : 'unreached' }
  } finally {
    reader?.cancel().catch(() => {})
  }
}
