import { FRAME_NAMES } from '../vocabulary.ts'
import { endedBy } from './answer.ts'
import type { Attempt, Ended } from './attempt.ts'
import { ShojiProblem } from './requests.ts'
import type { EventSourceLike } from './types.ts'

const CLOSED = 2

export interface EventSourceStreamOptions {
  readonly EventSource: new (url: string) => EventSourceLike
  readonly fetch: typeof fetch
}

/**
 * One `EventSource`, which reconnects by itself from the last id; the attempt ends when it gives up. It
 * begins from `?cursor=`, as it can't set headers. Never rejects.
 */
export async function eventSourceStream(attempt: Attempt, options: EventSourceStreamOptions): Promise<Ended> {
  const { signal } = attempt
  if (signal.aborted) return { why: 'lost' }
  const url = attempt.url(attempt.position() ?? undefined)
  const source = new options.EventSource(url)
  const ended = await new Promise<Ended | 'closed'>(resolve => {
    signal.addEventListener('abort', () => resolve({ why: 'lost' }), { once: true })
    source.addEventListener('open', attempt.onBytes)
    source.addEventListener('error', () => {
      if (source.readyState === CLOSED) resolve('closed')
      else attempt.onInterrupted()
    })
    for (const event of FRAME_NAMES)
      source.addEventListener(event, ({ data, lastEventId }) => {
        attempt.onBytes()
        // The DOM repeats the last id on events without one; ids never repeat.
        const own = lastEventId !== undefined && lastEventId !== '' && lastEventId !== attempt.position()
        try {
          attempt.onEvent({ event, data: String(data), ...(own && { id: lastEventId }) })
        } catch (cause) {
          resolve(cause instanceof ShojiProblem ? { why: 'refused', problem: cause } : { why: 'lost' })
        }
      })
  })
  source.close()
  return ended === 'closed' ? whyClosed(url, attempt, options) : ended
}

/** The DOM does not tell the status that ended an `EventSource`; asking once more does. */
async function whyClosed(
  url: string,
  { signal }: Attempt,
  options: EventSourceStreamOptions,
): Promise<Ended> {
  try {
    const response = await options.fetch(url, {
      headers: { accept: 'text/event-stream' },
      cache: 'no-store',
      signal,
    })
    const ended = await endedBy(response)
    response.body?.cancel().catch(() => {})
    return ended ?? { why: 'lost' }
  } catch {
    return { why: 'unreached' }
  }
}
