import { formatCursor } from './cursor.ts'
import type { Generation } from './events.ts'
import { isUuidV7, parseU64 } from './ids.ts'

/** All that differs on the wire between the two generations, and nothing else. */
export interface Dialect {
  readonly generation: Generation
  /** The worker id as JSON: a bare number or a string (R2). */
  readonly idJson: (workerId: string) => string
  /** The id a path segment names, `undefined` if it is malformed. */
  readonly parseId: (segment: string) => string | undefined
  readonly eventFrame: (idJson: string, position: number, payload: string) => string
  readonly snapshotFrame: (idJson: string, position: number | bigint, data: string) => string
  /** The last frame before the socket ends: a diagnostic, or an ordinary `error` event (R46). */
  readonly endingFrame: (code: string, message: string) => string
  /** The route on which the Runtime pushes; the other generation's route is silent or missing. */
  readonly observationRoute: 'events' | 'protocol'
}

const eventsWs: Dialect = {
  generation: 'events-ws',
  observationRoute: 'events',
  idJson: workerId => workerId,
  parseId: parseU64,
  eventFrame: (idJson, position, payload) => {
    const cursor = formatCursor(position)
    return `{"kind":"event","envelope":{"cursor":"${cursor}","event_id":"${cursor}","worker_id":${idJson},"payload":${payload}}}`
  },
  snapshotFrame: (idJson, position, data) => {
    const cursor = formatCursor(position)
    return `{"kind":"event","envelope":{"cursor":"${cursor}","event_id":"snapshot:${cursor}","worker_id":${idJson},"payload":{"event":"snapshot","data":${data}}}}`
  },
  endingFrame: (code, message) =>
    `{"kind":"diagnostic","diagnostic":{"code":"runtime.${code}","message":${JSON.stringify(message)}}}`,
}

const protocolWs: Dialect = {
  generation: 'protocol-ws',
  observationRoute: 'protocol',
  idJson: workerId => JSON.stringify(workerId),
  parseId: segment => (isUuidV7(segment) ? segment : undefined),
  eventFrame: (_idJson, _position, payload) => payload,
  snapshotFrame: (_idJson, _position, data) => `{"event":"snapshot","data":${data}}`,
  endingFrame: (_code, message) =>
    `{"event":"error","data":{"code":"internal","message":${JSON.stringify(message)}}}`,
}

export const dialectOf = (generation: Generation): Dialect =>
  generation === 'events-ws' ? eventsWs : protocolWs
