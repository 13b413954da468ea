import type { HttpAnswer } from './answer.ts'
import { refusal } from './answer.ts'
import type { RuntimeEvent } from './events.ts'
import type { Observer } from './observer.ts'
import type { EmbeddedRuntime } from './runtime.ts'
import type { EmbeddedWorker } from './worker.ts'

export interface Misbehaviour {
  /** Destroys the sockets of one worker, or all; the peer sees 1006. */
  cut(workerId?: string): void
  /** The sockets stay open but say nothing and answer no ping. */
  stall(workerId?: string): void
  /** Ends a stall: what waited is sent, or the socket is overrun. */
  unstall(workerId?: string): void
  /** Keeps pongs back while everything else goes on. */
  holdPongs(held: boolean, workerId?: string): void
  /** Says that the socket was overrun, and ends it. */
  overrun(workerId?: string): void
  /** Forgets a worker's oldest retained events until `keep` are left. */
  evict(workerId: string, keep?: number): void
  /** The next `count` events (that match) vanish before they are numbered; the log has them (R20). */
  lose(workerId: string, count: number, applies?: (event: RuntimeEvent) => boolean): void
  /** The next `count` events (that match) are sent twice, under the same event id. */
  double(workerId: string, count: number, applies?: (event: RuntimeEvent) => boolean): void
  /** Snapshots are ahead: connections without a cursor get the last `count` events again (R21); 0 ends it. */
  overlap(workerId: string, count: number): void
  /** Publishes one `text_delta` whose frame has at least this many bytes. */
  oversizeEvent(workerId: string, bytes: number): void
  /** Later snapshots are larger by this many bytes; 0 ends it. */
  oversizeSnapshot(workerId: string, bytes: number): void
  /** Sends text that is no frame. */
  malformed(workerId: string, text?: string): void
  /** Sends a frame that names another worker. Only `events-ws` frames name one. */
  foreignFrame(workerId: string, otherId: string): void
  binary(workerId: string, bytes?: Uint8Array): void
  /** Publishes an event of a name and shape that nobody knows. */
  unknownEvent(workerId: string, name?: string): void
  /** Answers the next upgrades with this instead; `Infinity`: until `behave`. */
  refuseUpgrades(answer: HttpAnswer, times?: number): void
  /** Answers the next REST requests with this instead. */
  refuseRequests(answer: HttpAnswer, times?: number): void
  /** The Runtime asks for another token from now on: 401 everywhere. */
  changeToken(token: string): void
  /** Ends refusals. */
  behave(): void
  /**
   * Restarts without a store and makes the same workers again: numbers are given twice, and old cursors
   * name other events (R39). Returns the new workers.
   */
  alias(): Promise<EmbeddedWorker[]>
}

export const unavailable: HttpAnswer = refusal(500, 'internal', 'the Runtime is out of order')

/** Everything a Runtime can do wrong, on demand. */
export const misbehave = (runtime: EmbeddedRuntime): Misbehaviour => {
  const observersOf = (workerId: string | undefined): Observer[] =>
    [...runtime.observers].filter(observer => workerId === undefined || observer.workerId === workerId)
  const refusals = new Map<'request' | 'upgrade', { answer: HttpAnswer; left: number }>()
  const refuse = (kind: 'request' | 'upgrade', answer: HttpAnswer, times: number): void => {
    refusals.set(kind, { answer, left: times })
    runtime.intercept = asked => {
      const rule = refusals.get(asked)
      if (!rule || rule.left <= 0) return undefined
      rule.left -= 1
      return rule.answer
    }
  }
  return {
    cut(workerId) {
      for (const observer of observersOf(workerId)) observer.destroy()
    },
    stall(workerId) {
      for (const observer of observersOf(workerId)) observer.stall()
    },
    unstall(workerId) {
      for (const observer of observersOf(workerId)) observer.resume()
    },
    holdPongs(held, workerId) {
      for (const observer of observersOf(workerId)) observer.holdPongs(held)
    },
    overrun(workerId) {
      const frame = runtime.dialect.endingFrame('cursor_expired', 'runtime observation backlog was overrun')
      for (const observer of observersOf(workerId)) observer.end(frame)
    },
    evict(workerId, keep = 0) {
      runtime.log.evict(workerId, keep)
    },
    lose(workerId, count, applies) {
      runtime.worker(workerId).misfate('lose', count, applies)
    },
    double(workerId, count, applies) {
      runtime.worker(workerId).misfate('double', count, applies)
    },
    overlap(workerId, count) {
      runtime.worker(workerId).streamLag = count
    },
    oversizeEvent(workerId, bytes) {
      runtime.worker(workerId).emit({ event: 'text_delta', data: { text: 'x'.repeat(bytes) } })
    },
    oversizeSnapshot(workerId, bytes) {
      runtime.worker(workerId).padSnapshot(bytes)
    },
    malformed(workerId, text = '{"kind":"event","envelope":{') {
      runtime.worker(workerId).sendRaw(text)
    },
    foreignFrame(workerId, otherId) {
      const worker = runtime.worker(workerId)
      const payload = '{"event":"text_delta","data":{"text":"of another worker"}}'
      worker.sendRaw(
        runtime.dialect.eventFrame(runtime.dialect.idJson(otherId), worker.lastPosition + 1, payload),
      )
    },
    binary(workerId, bytes = new Uint8Array([0, 1, 2])) {
      for (const observer of runtime.worker(workerId).observers) observer.sayBinary(bytes)
    },
    unknownEvent(workerId, name = 'weather_report') {
      runtime.worker(workerId).emit({
        event: name,
        data: { wind: 3, secret: 'sk-FAKEfake0123456789FAKEfake0123456789', nested: { text: ['a', null] } },
      })
    },
    refuseUpgrades(answer, times = 1) {
      refuse('upgrade', answer, times)
    },
    refuseRequests(answer, times = 1) {
      refuse('request', answer, times)
    },
    changeToken(token) {
      runtime.token = token
    },
    behave() {
      refusals.clear()
      runtime.intercept = undefined
    },
    async alias() {
      const before = [...runtime.workers.values()]
      await runtime.restart({ keepStore: false })
      return before.map(worker => runtime.addWorker({ ...worker.options, workerId: worker.id }))
    },
  }
}
