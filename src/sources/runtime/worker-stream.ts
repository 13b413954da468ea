import type { ResetReason } from '@shoji/web-contract'
import type { Envelope } from '../../journal/entry.ts'
import type { SourceSink, StreamIngest } from '../source.ts'
import type { RejectedFrame } from './connection.ts'

const strength = (reason: ResetReason): number =>
  reason === 'worker_changed' ? 2 : reason === 'upstream_gap' ? 1 : 0

/** One worker's stream as its link hands it in: opened once, with what is known about why its list is replaced. */
export class WorkerStream {
  readonly #sink: SourceSink
  readonly #runtime: string
  readonly #worker: string
  #ingest: StreamIngest | null = null
  #profile: string | null = null
  #reset: ResetReason = 'upstream_unverifiable'
  #begun = false
  #stopped = false

  constructor(sink: SourceSink, runtime: string, worker: string) {
    this.#sink = sink
    this.#runtime = runtime
    this.#worker = worker
  }

  /** Whether there is a list to show, from now or from before this process. */
  get known(): boolean {
    return this.#begun || this.#ingest?.known === true
  }

  /** Makes the stream ready to take what a connection brings. Rejects where the journal cannot. */
  async open(profile: string | null): Promise<void> {
    if (this.#ingest !== null) return this.profileIs(profile)
    this.#ingest = await this.#sink.open(this.#ref(), profile)
    this.#profile = profile
  }

  /** Tells of another profile, if the stream was opened under one. */
  async profileIs(profile: string | null): Promise<void> {
    if (this.#ingest === null || profile === this.#profile) return
    await this.#sink.profileChanged(this.#ref(), profile)
    this.#profile = profile
    this.replacedFor('worker_changed')
  }

  /** Of several things that happened since the last list, the next one is announced with the weightiest. */
  replacedFor(reason: ResetReason): void {
    if (strength(reason) > strength(this.#reset)) this.#reset = reason
  }

  begin(snapshot: Envelope): void {
    this.#ingest?.begin(snapshot, this.#reset)
    this.#reset = 'upstream_unverifiable'
    this.#begun = true
    this.#stopped = false
  }

  accept(envelope: Envelope): void {
    this.#ingest?.accept(envelope)
  }

  reject(frame: RejectedFrame): void {
    this.#ingest?.reject(frame)
  }

  /** The worker runs no more. Told once, and only of a stream that has a list: in another nothing is open. */
  stop(time: number): void {
    if (!this.known || this.#stopped) return
    this.#stopped = true
    this.#ingest?.stopped(time)
  }

  #ref() {
    return { source: 'runtime', runtime: this.#runtime, worker: this.#worker } as const
  }
}
