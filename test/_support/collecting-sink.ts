import type { ResetReason } from '@shoji/web-contract'
import type { Envelope } from '../../src/journal/entry.ts'
import type { QuarantinedFrame, StreamRef } from '../../src/journal/journal.ts'
import type { SourceEvents, SourceSink, StatusChange, StreamIngest } from '../../src/sources/source.ts'

type Collected =
  | { readonly kind: 'open'; readonly worker: string; readonly profile: string | null }
  | { readonly kind: 'profile'; readonly worker: string; readonly profile: string | null }
  | {
      readonly kind: 'begin'
      readonly worker: string
      readonly snapshot: Envelope
      readonly reason: ResetReason
    }
  | { readonly kind: 'accept'; readonly worker: string; readonly envelope: Envelope }
  | { readonly kind: 'reject'; readonly worker: string; readonly frame: Omit<QuarantinedFrame, 'stream'> }
  | { readonly kind: 'stopped'; readonly worker: string; readonly time: number }
  | { readonly kind: 'status'; readonly worker?: string; readonly change: StatusChange }

export type Told<K extends Collected['kind']> = Extract<Collected, { kind: K }>

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
      begin: (snapshot, reason) => {
        this.known.add(worker)
        this.#queue(snapshot.payload.length)
        this.#add({ kind: 'begin', worker, snapshot, reason })
      },
      accept: envelope => {
        if (this.failing === 'accept') throw new Error('the journal is away')
        this.#queue(envelope.payload.length)
        this.#add({ kind: 'accept', worker, envelope })
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
