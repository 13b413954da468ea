import type { ResetReason } from '@shoji/web-contract'
import type { Envelope } from '../../journal/entry.ts'
import type { Dialect, ResyncNeed, ResyncOutcome, SourceSink, StreamIngest } from '../source.ts'
import type { Ended } from './connection.ts'
import { ruleOf } from './ends.ts'
import type { RejectedFrame } from './held-frames.ts'
import type { Reconnection } from './overlap.ts'
import { type Resumption, resumptionOf } from './resumption.ts'

/** Of several reasons the one that stands last here is announced: what is known goes before what is not, loss before change. */
const WEIGHTS: readonly ResetReason[] = [
  'upstream_unverifiable',
  'compacted',
  'upstream_resynced',
  'upstream_state_mismatch',
  'upstream_gap',
  'upstream_restarted',
  'worker_changed',
]

const NOT_DUE: ResyncNeed = { due: false, idle: false, version: 0 }

/**
 * One worker's stream as its link hands it in: opened once, with what is known about why its list is replaced
 * and whether it must be.
 */
export class WorkerStream {
  readonly #sink: SourceSink
  readonly #runtime: string
  readonly #worker: string
  #ingest: StreamIngest | null = null
  #profile: string | null = null
  #reset: ResetReason = 'upstream_unverifiable'
  #afresh = false
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
    this.#afresh = true
  }

  /** Of several things that happened since the last list, the next one is announced with the weightiest. */
  replacedFor(reason: ResetReason): void {
    if (WEIGHTS.indexOf(reason) > WEIGHTS.indexOf(this.#reset)) this.#reset = reason
  }

  /** A connection ended: what it means for the next one. In `protocol-ws` no list goes on. */
  ended({ code, verdict, believedAt }: Ended, dialect: Dialect): void {
    const { reset, afresh } = ruleOf(code)
    if (verdict?.verdict === 'not_proven') this.replacedFor(verdict.reason)
    this.replacedFor(reset)
    const believed = believedAt !== null
    const resumable = afresh !== true && (dialect === 'events-ws' || !believed)
    if (!resumable) this.#afresh = true
    if (!believed) return
    try {
      this.#ingest?.closed(resumable)
    } catch {
      // The journal is closing; the next start finds the list as it is.
    }
  }

  /**
   * How the next connection goes on with the list; null where it has to begin a new one. `running`: the worker
   * is observed, not looked at. Rejects where the journal cannot be read.
   */
  async resumption(asked: Reconnection['asked'], running: boolean): Promise<Resumption | null> {
    const ingest = this.#ingest
    if (ingest === null || this.#afresh) return null
    const proof = await ingest.proof()
    // Nothing on a resumed stream would say that a stopped worker runs again.
    if (proof === null || (running && proof.status === 'stopped')) return null
    return resumptionOf(proof, ingest, asked)
  }

  begin(snapshot: Envelope, dialect: Dialect, followed: boolean): void {
    this.#ingest?.begin(snapshot, { reason: this.#reset, dialect, followed })
    this.#reset = 'upstream_unverifiable'
    this.#afresh = false
    this.#begun = true
    this.#stopped = false
  }

  /** The list goes on: whatever was feared of it is disproven. */
  goOn(): void {
    this.#reset = 'upstream_unverifiable'
  }

  accept(envelope: Envelope): void {
    this.#ingest?.accept(envelope)
  }

  reject(frame: RejectedFrame): void {
    this.#ingest?.reject(frame)
  }

  get resync(): ResyncNeed {
    return this.#ingest?.resync ?? NOT_DUE
  }

  onResync(listener: (() => void) | null): void {
    this.#ingest?.onResync(listener)
  }

  resyncDue(): void {
    this.#ingest?.resyncDue()
  }

  resyncWith(snapshot: Envelope): ResyncOutcome {
    return this.#ingest?.resyncWith(snapshot) ?? { outcome: 'same' }
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
