import { ShojiError } from '../../lib/error.ts'

interface Waiter {
  readonly seq: number
  readonly resolve: () => void
  readonly reject: (error: ShojiError) => void
}

/** Those who wait until a position is reached. Nothing is left behind by one who gives up. */
export interface Waiters {
  /** Resolves once `reached(seq)`; rejects with `aborted`, or with what `fail` was given. */
  wait(seq: number, signal?: AbortSignal): Promise<void>
  /** Lets go of all whom `reached` satisfies. */
  wake(): void
  fail(error: ShojiError): void
}

export const createWaiters = (reached: (seq: number) => boolean): Waiters => {
  const waiting = new Set<Waiter>()
  let failure: ShojiError | undefined
  const aborted = (signal: AbortSignal): ShojiError =>
    new ShojiError('aborted', 'no longer waited for', { cause: signal.reason })

  return {
    wait: (seq, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(aborted(signal))
        if (reached(seq)) return resolve()
        if (failure !== undefined) return reject(failure)
        const onAbort = (): void => {
          if (signal !== undefined && waiting.delete(waiter)) reject(aborted(signal))
        }
        const settle =
          <A extends unknown[]>(then: (...args: A) => void) =>
          (...args: A): void => {
            waiting.delete(waiter)
            signal?.removeEventListener('abort', onAbort)
            then(...args)
          }
        const waiter: Waiter = { seq, resolve: settle(() => resolve()), reject: settle(reject) }
        waiting.add(waiter)
        signal?.addEventListener('abort', onAbort, { once: true })
      }),
    wake: () => {
      for (const waiter of waiting) if (reached(waiter.seq)) waiter.resolve()
    },
    fail: error => {
      failure = error
      for (const waiter of waiting) waiter.reject(error)
    },
  }
}
