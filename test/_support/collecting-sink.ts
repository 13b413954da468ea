import type { ResetReason } from '@shoji/web-contract'
import { isDistinctive } from '../../src/journal/continuity/distinctive.ts'
import type { Envelope } from '../../src/journal/entry.ts'
import type { QuarantinedFrame, StreamRef } from '../../src/journal/journal.ts'
import { STORED_EVENTS } from '../../src/sources/runtime/overlap.ts'
import type {
  Beginning,
  HeldAgainst,
  ResumeProof,
  ResyncNeed,
  ResyncOutcome,
  SourceEvents,
  SourceSink,
  StatusChange,
  StreamIngest,
} from '../../src/sources/source.ts'

type Collected =
  | { readonly kind: 'open'; readonly worker: string; readonly profile: string | null }
  | { readonly kind: 'profile'; readonly worker: string; readonly profile: string | null }
  | {
      readonly kind: 'begin'
      readonly worker: string
      readonly snapshot: Envelope
      readonly reason: ResetReason
      readonly beginning: Beginning
    }
  | { readonly kind: 'accept'; readonly worker: string; readonly envelope: Envelope }
  | { readonly kind: 'reject'; readonly worker: string; readonly frame: Omit<QuarantinedFrame, 'stream'> }
  | { readonly kind: 'closed'; readonly worker: string; readonly resumable: boolean }
  | { readonly kind: 'resyncDue'; readonly worker: string }
  | { readonly kind: 'resync'; readonly worker: string; readonly snapshot: Envelope }
  | { readonly kind: 'stopped'; readonly worker: string; readonly time: number }
  | { readonly kind: 'status'; readonly worker?: string; readonly change: StatusChange }

export type Told<K extends Collected['kind']> = Extract<Collected, { kind: K }>

const macOf = (payload: string): string => `mac of ${payload}`

const dataOf = ({ payload }: Envelope): Record<string, unknown> => JSON.parse(payload).data ?? {}

const NOT_DUE: ResyncNeed = { due: false, idle: false, version: 0 }

/** A sink that keeps what it is told, in order. `queuedBytes` is what the test says it is. */
export class CollectingSink implements SourceSink {
  readonly all: Collected[] = []
  /** Workers whose list the journal holds already. */
  readonly known = new Set<string>()
  queuedBytes = 0
  maxQueuedBytes = 64 * 1024 * 1024
  /** Adds what it is handed to `queuedBytes`, as an ingest does whose disk stands still. */
  queueing = false
  failing: 'open' | 'accept' | null = null
  onAccept: (() => void) | null = null
  /** What was accepted must be proven by a reconnect; without it every one begins anew. */
  provable = false
  /** In the place of what was accepted. */
  readonly proofs = new Map<string, ResumeProof>()
  /** How snapshots compare; without one they say the same as what was accepted. */
  readonly comparisons = new Map<string, Partial<HeldAgainst>>()
  readonly outcomes = new Map<string, ResyncOutcome>()
  readonly #needs = new Map<string, ResyncNeed>()
  readonly #listeners = new Map<string, () => void>()
  readonly #waiting = new Set<() => void>()
  #relieve: (() => void) | null = null

  async open(ref: StreamRef, profile: string | null): Promise<StreamIngest> {
    const { worker } = ref
    if (this.failing === 'open') throw new Error('the journal is away')
    this.#add({ kind: 'open', worker, profile })
    const sink = this
    return {
      get known() {
        return sink.known.has(worker)
      },
      begin: (snapshot, beginning) => {
        this.known.add(worker)
        this.#queue(snapshot.payload.length)
        this.#add({ kind: 'begin', worker, snapshot, reason: beginning.reason, beginning })
      },
      proof: async () => this.proofs.get(worker) ?? (this.provable ? this.#proofOf(worker) : null),
      macOf,
      holdAgainst: snapshot => {
        const { entries, status } = dataOf(snapshot)
        const empty = !Array.isArray(entries) || entries.length === 0
        return { comparison: 'same', empty, status: String(status), ...this.comparisons.get(worker) }
      },
      resyncDue: () => this.#add({ kind: 'resyncDue', worker }),
      closed: resumable => this.#add({ kind: 'closed', worker, resumable }),
      get resync() {
        return sink.#needs.get(worker) ?? NOT_DUE
      },
      onResync: listener => {
        if (listener === null) this.#listeners.delete(worker)
        else this.#listeners.set(worker, listener)
      },
      resyncWith: snapshot => {
        this.#add({ kind: 'resync', worker, snapshot })
        return this.outcomes.get(worker) ?? { outcome: 'same' }
      },
      accept: envelope => {
        if (this.failing === 'accept') throw new Error('the journal is away')
        this.#queue(envelope.payload.length)
        this.#add({ kind: 'accept', worker, envelope })
        this.onAccept?.()
      },
      reject: frame => this.#add({ kind: 'reject', worker, frame }),
      stopped: time => this.#add({ kind: 'stopped', worker, time }),
    }
  }

  async profileChanged(ref: StreamRef, profile: string | null): Promise<void> {
    this.#add({ kind: 'profile', worker: ref.worker, profile })
  }

  relieved(signal: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      const done = () => {
        signal.removeEventListener('abort', done)
        resolve()
      }
      signal.addEventListener('abort', done, { once: true })
      this.#relieve = done
    })
  }

  /** The queue is empty again. */
  relieve(): void {
    this.queuedBytes = 0
    this.#relieve?.()
  }

  /** A snapshot is due (and the worker rests), or no longer. */
  needs(worker: string, need: Partial<ResyncNeed>): void {
    this.#needs.set(worker, { ...(this.#needs.get(worker) ?? NOT_DUE), ...need })
    this.#listeners.get(worker)?.()
  }

  status(change: StatusChange): void {
    this.#add({ kind: 'status', ...(change.worker === undefined ? {} : { worker: change.worker }), change })
  }

  of<K extends Collected['kind']>(kind: K, worker?: string): readonly Told<K>[] {
    return this.all.filter(
      (told): told is Told<K> => told.kind === kind && (worker === undefined || told.worker === worker),
    )
  }

  /** The texts of the deltas of a worker, in order. */
  texts(worker: string): readonly string[] {
    return this.of('accept', worker).flatMap(({ envelope }) => {
      const { event, data } = JSON.parse(envelope.payload) as { event: string; data?: { text?: string } }
      return event === 'text_delta' ? [data?.text ?? ''] : []
    })
  }

  /** Resolves when `done` holds, looked at after each thing told. */
  async until(done: (sink: CollectingSink) => boolean): Promise<void> {
    while (!done(this)) await new Promise<void>(resolve => this.#waiting.add(resolve))
  }

  /** Resolves with the `count`th thing of a kind that is told of a worker. */
  async next<K extends Collected['kind']>(kind: K, worker?: string, count = 1): Promise<Told<K>> {
    await this.until(() => this.of(kind, worker).length >= count)
    return this.of(kind, worker)[count - 1] as Told<K>
  }

  /** Resolves when the newest status of a worker, or of the Runtime, is this one. */
  async reaches(
    worker: string | undefined,
    upstream: StatusChange['upstream'],
    code?: string,
  ): Promise<void> {
    await this.until(() => {
      const last = this.all.findLast(
        (told): told is Told<'status'> => told.kind === 'status' && told.worker === worker,
      )
      return last?.change.upstream === upstream && (code === undefined || last.change.code === code)
    })
  }

  #proofOf(worker: string): ResumeProof | null {
    const begun = this.all.findLastIndex(told => told.kind === 'begin' && told.worker === worker)
    const begin = this.all[begun]
    if (begin?.kind !== 'begin') return null
    const accepted = this.all
      .slice(begun)
      .flatMap(told => (told.kind === 'accept' && told.worker === worker ? [told.envelope] : []))
    const status = accepted.findLast(({ payload }) => JSON.parse(payload).event === 'status')
    const { snapshot } = begin
    return {
      events: accepted.slice(-STORED_EVENTS).map(envelope => ({
        cursor: envelope.cursor ?? '',
        eventId: envelope.eventId,
        mac: macOf(envelope.payload),
        distinctive: isDistinctive(JSON.parse(envelope.payload).event, dataOf(envelope)),
      })),
      snapshot: accepted.length > 0 ? null : { cursor: snapshot.cursor ?? '', mac: macOf(snapshot.payload) },
      status: String(dataOf(status ?? snapshot).status),
      saysNothing: false,
    }
  }

  #queue(bytes: number): void {
    if (this.queueing) this.queuedBytes += bytes
  }

  #add(told: Collected): void {
    this.all.push(told)
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const wake of waiting) wake()
  }
}

type CountedEvent = {
  [K in keyof SourceEvents]: { name: K; at: Parameters<SourceEvents[K]>[0] }
}[keyof SourceEvents]

/** Source events kept in order. */
export class CollectingEvents {
  readonly seen: CountedEvent[] = []
  readonly #waiting = new Set<() => void>()

  readonly events: SourceEvents = {
    connected: at => this.#add({ name: 'connected', at }),
    disconnected: at => this.#add({ name: 'disconnected', at }),
    rejected: at => this.#add({ name: 'rejected', at }),
    judged: at => this.#add({ name: 'judged', at }),
    resynced: at => this.#add({ name: 'resynced', at }),
    paused: at => this.#add({ name: 'paused', at }),
    discovered: at => this.#add({ name: 'discovered', at }),
    discoveryFailed: at => this.#add({ name: 'discoveryFailed', at }),
  }

  count(name: CountedEvent['name']): number {
    return this.seen.filter(event => event.name === name).length
  }

  /** How the connections to a worker ended. */
  ends(worker: string): readonly string[] {
    return this.seen.flatMap(({ name, at }) =>
      name === 'disconnected' && at.worker === worker ? [at.code] : [],
    )
  }

  /** Verdicts on what a worker's reconnects showed, in order. */
  verdicts(worker: string): readonly string[] {
    return this.seen.flatMap(({ name, at }) =>
      name === 'judged' && at.worker === worker ? [at.verdict] : [],
    )
  }

  /** What became of the snapshots that were fetched beside a worker's connection. */
  resyncs(worker: string): readonly string[] {
    return this.seen.flatMap(({ name, at }) =>
      name === 'resynced' && at.worker === worker ? [at.outcome] : [],
    )
  }

  /** Resolves when `done` holds, looked at after each event. */
  async until(done: (events: CollectingEvents) => boolean): Promise<void> {
    while (!done(this)) await new Promise<void>(resolve => this.#waiting.add(resolve))
  }

  /** Resolves when so many more events of a name have come. */
  more(name: CountedEvent['name'], count: number): Promise<void> {
    const goal = this.count(name) + count
    return this.until(events => events.count(name) >= goal)
  }

  #add(event: CountedEvent): void {
    this.seen.push(event)
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const wake of waiting) wake()
  }
}
