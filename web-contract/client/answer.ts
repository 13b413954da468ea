import type { Ended } from './attempt.ts'
import { problemOf } from './requests.ts'

/** Answers below 500 that pass by themselves: a timeout, too early, too many. */
const PASSING: ReadonlySet<number> = new Set([408, 425, 429])

/** What an answer that is no event stream means; undefined where it is one. */
export async function endedBy(response: Response): Promise<Ended | undefined> {
  const { status, headers } = response
  if (status >= 400 && status < 500 && !PASSING.has(status))
    return { why: 'refused', problem: await problemOf(response) }
  if (status === 200 && headers.get('content-type')?.startsWith('text/event-stream') === true)
    return undefined
  const seconds = Number(headers.get('retry-after'))
  return { why: 'lost', ...(seconds > 0 && { retryMs: seconds * 1000 }) }
}
