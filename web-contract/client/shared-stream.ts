import type { Attempt, Ended } from './attempt.ts'
import { ShojiProblem } from './requests.ts'
import { type FromHub, type FromTab, type StreamWish, unitsOf } from './shared-messages.ts'
import type { Clock, SharedWorkerLike } from './types.ts'

/** A worker that has not said a word by then is not there: its script did not load, or it hangs. */
const FIRST_WORD_MS = 5_000
const TELL_EVERY_UNITS = 65_536

/**
 * One connection by way of the worker that holds the browser's stream. Undefined where there is no such
 * worker, so that the tab needs a stream of its own. Never rejects.
 */
export function sharedStream(
  attempt: Attempt,
  wish: StreamWish,
  connect: () => SharedWorkerLike,
  clock: Clock,
): Promise<Ended | undefined> {
  const { signal } = attempt
  if (signal.aborted) return Promise.resolve({ why: 'lost' })
  return new Promise(resolve => {
    let worker: SharedWorkerLike
    try {
      worker = connect()
    } catch {
      resolve(undefined)
      return
    }
    const { port } = worker
    let heard = false
    let took = 0
    let told = 0
    const post = (message: FromTab): void => port.postMessage(message)
    const end = (ended?: Ended): void => {
      clock.clearTimeout(timer)
      signal.removeEventListener('abort', lost)
      page.removeEventListener?.('pagehide', lost)
      post({ do: 'leave' })
      port.close()
      resolve(ended)
    }
    const lost = (): void => end({ why: 'lost' })
    const page: Partial<EventTarget> = globalThis
    const timer = clock.setTimeout(() => end(), FIRST_WORD_MS)
    signal.addEventListener('abort', lost)
    // A page that is left is frozen or gone: its queue must not grow. Brought back, it joins anew.
    page.addEventListener?.('pagehide', lost)
    worker.addEventListener('error', () => end(heard ? { why: 'lost' } : undefined))
    port.addEventListener('message', ({ data }) => {
      if (signal.aborted) return
      heard = true
      clock.clearTimeout(timer)
      const message = data as FromHub
      if (message.say === 'event') {
        const { event } = message
        took += unitsOf(event)
        try {
          attempt.onBytes()
          attempt.onEvent(event)
        } catch (cause) {
          end(cause instanceof ShojiProblem ? { why: 'refused', problem: cause } : { why: 'lost' })
          return
        }
      } else attempt.onAlive()
      if (message.say === 'interrupted') attempt.onInterrupted(message.connection)
      if (message.say === 'refused')
        end({
          why: 'refused',
          problem: new ShojiProblem(message.code as ShojiProblem['code'], message.status, message.code),
        })
      if (message.say === 'end') lost()
      if (message.say === 'here' || took - told > TELL_EVERY_UNITS) {
        told = took
        post({ do: 'took', units: took })
      }
    })
    port.start()
    post({ do: 'join', wish, position: attempt.position() })
  })
}
