import type { IncomingMessage } from 'node:http'
import { type HttpAnswer, plain, unauthorized } from './answer.ts'
import { formatCursor, parseCursor } from './cursor.ts'
import type { Observer } from './observer.ts'
import { findWorker, wrongUpgrade } from './rest.ts'
import type { EmbeddedRuntime } from './runtime.ts'
import type { EmbeddedWorker } from './worker.ts'

export interface SocketTarget {
  /** None: the Runtime-wide socket of the later generation, which says nothing. */
  readonly worker: EmbeddedWorker | undefined
  readonly route: 'events' | 'protocol'
}

/** What an upgrade reaches, or the answer that refuses it; in the order in which the Runtime looks (R8). */
export const upgradeTarget = (
  runtime: EmbeddedRuntime,
  request: IncomingMessage,
  path: string,
  query: string,
): SocketTarget | HttpAnswer => {
  const intercepted = runtime.intercept?.('upgrade', path)
  if (intercepted) return intercepted
  if (!runtime.authorised(request)) return unauthorized()
  if (path === '/v1/protocol/ws' && runtime.generation === 'protocol-ws') {
    return { worker: undefined, route: 'protocol' }
  }
  const match = /^\/v1\/workers\/([^/]+)\/(events|protocol)\/ws$/.exec(path)
  const route = match?.[2] === 'events' ? 'events' : 'protocol'
  if (!match || (route === 'events' && runtime.generation !== 'events-ws')) return wrongUpgrade(runtime, path)
  if (new URLSearchParams(query).getAll('cursor').length > 1) {
    return plain(400, 'Failed to deserialize query string: duplicate field `cursor`')
  }
  const worker = findWorker(runtime, match[1] ?? '')
  return 'headers' in worker ? worker : { worker, route }
}

/** Why a cursor is refused; zero never is, and a worker without retained events refuses none below the counter (R17). */
const fault = (
  runtime: EmbeddedRuntime,
  worker: EmbeddedWorker,
  position: bigint,
): 'unknown' | 'expired' | undefined => {
  if (position >= BigInt(runtime.log.next)) return 'unknown'
  const first = runtime.log.firstOf(worker.id)
  if (position > 0n && first !== undefined && position < BigInt(first)) return 'expired'
  return undefined
}

/**
 * Says what a new observation socket gets first. Without a cursor the stream begins after the worker's last
 * retained event, be it zero (R14). A refused cursor gets the snapshot all the same, repeating the cursor,
 * and the diagnostic second (R13); only a malformed one gets the diagnostic alone.
 */
export const beginObservation = (
  runtime: EmbeddedRuntime,
  observer: Observer,
  worker: EmbeddedWorker,
  raw: string | undefined,
): void => {
  const { dialect, log } = runtime
  const asked = raw === undefined ? undefined : parseCursor(raw)
  if (raw !== undefined && asked === undefined) {
    observer.end(dialect.endingFrame('cursor_malformed', `malformed worker observation cursor: ${raw}`))
    return
  }
  const position = asked ?? BigInt(log.lastOf(worker.id, worker.streamLag) ?? 0)
  const snapshot = dialect.snapshotFrame(worker.idJson, position, worker.snapshotData())
  const refused = asked === undefined ? undefined : fault(runtime, worker, asked)
  if (refused !== undefined && runtime.generation === 'events-ws') {
    const reason = `invalid request: worker observation cursor ${formatCursor(position)} is ${refused} for worker ${worker.id}`
    observer.say(snapshot)
    observer.end(dialect.endingFrame('cursor_unknown_or_expired', reason))
    return
  }
  worker.observers.add(observer)
  // A later Runtime starts a cursor that it does not know at the present, without a word (R45).
  observer.begin([snapshot, ...(refused === undefined ? log.after(worker.id, position) : [])])
}
