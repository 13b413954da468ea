import type { EnvelopeData, Frame } from '../../frames.ts'
import { emptyWorkerState } from '../../reduce-worker.ts'

type EnvelopeFrame = Extract<Frame, { event: 'envelope' }>

const at = { runtime: 'rt', worker: 'w' }
const views = [{ ...at, classes: {}, commands: [] }]

/** One frame as the server writes it. */
export const sse = (frame: Frame): string =>
  `event: ${frame.event}\n${frame.id === undefined ? '' : `id: ${frame.id}\n`}data: ${JSON.stringify(frame.data)}\n\n`

export const hello = (outcome: 'fresh' | 'resumed' | 'reset', heartbeatMs = 15_000): Frame => ({
  event: 'hello',
  data: { protocol: 1, outcome, heartbeat_ms: heartbeatMs, policy: 'p', views },
})
export const snapshot = (): Frame => ({
  event: 'snapshot',
  data: { ...at, state: emptyWorkerState(), earlier: null },
})
export const caughtUp = (id: string): Frame => ({ event: 'caught_up', data: {}, id })
export const beat = (id: string): Frame => ({ event: 'beat', data: {}, id })
export const bye = (reason: 'rotated' | 'shutdown' | 'overloaded', retryMs = 0): Frame => ({
  event: 'bye',
  data: { reason, retry_ms: retryMs },
})
export const text = (id: string, value: string): Frame =>
  envelope(id, 'text_delta', { text: value }, { item: 'a', begins: true, block: 'b' })
export const envelope = (
  id: string,
  event: string,
  data: EnvelopeData['data'],
  more: Partial<EnvelopeData> = {},
): EnvelopeFrame => ({ event: 'envelope', id, data: { ...at, time: 1, event, data, ...more } })

/** A fresh stream up to the point where it is live. */
export const fresh = (id: string): string => [hello('fresh'), snapshot(), caughtUp(id)].map(sse).join('')

/**
 * A short session as a server keeps it: `stream(id)` is what it sends to a client that resumes after `id`.
 * Ids name a position and are new each time.
 */
export function session(envelopes: readonly Omit<EnvelopeFrame, 'id'>[]) {
  let salt = 0
  const idOf = (position: number): string => `${position}-${++salt}`
  return {
    stream(lastEventId: string | undefined): string {
      const after = lastEventId === undefined ? 0 : Number(lastEventId.split('-')[0])
      const missed = envelopes.slice(after).map((e, i) => sse({ ...e, id: idOf(after + i + 1) }))
      const end = sse(caughtUp(idOf(envelopes.length)))
      if (lastEventId !== undefined) return sse(hello('resumed')) + missed.join('') + end
      const begin = sse(hello('fresh')) + sse(snapshot()) + sse(caughtUp(idOf(0)))
      return begin + missed.join('') + sse(beat(idOf(envelopes.length)))
    },
    isEnd: (id: string | null): boolean => id?.startsWith(`${envelopes.length}-`) === true,
  }
}
