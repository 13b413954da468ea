import type { SourceSink } from '../source.ts'

/** One connection as back-pressure sees it. */
export interface Flow {
  readonly worker: string
  pause(): void
  resume(): void
}

/**
 * Reading comes first: sockets are read as fast as they give, and only when what waits to be durable passes
 * the sink's bound do they stand still, the largest sender first, one more with each frame that still comes,
 * and all of them past twice the bound. What a socket has read already still comes, so the bound is passed
 * by at most one chunk of each. They go on together when the sink is relieved.
 */
export class Pressure {
  readonly #sink: SourceSink
  readonly #signal: AbortSignal
  readonly #paused: (worker: string, queuedBytes: number) => void
  /** Bytes handed in, halved with each `age`. */
  readonly #sent = new Map<Flow, number>()
  readonly #standing = new Set<Flow>()
  #relief: Promise<void> | null = null

  constructor(sink: SourceSink, signal: AbortSignal, paused: (worker: string, queuedBytes: number) => void) {
    this.#sink = sink
    this.#signal = signal
    this.#paused = paused
  }

  add(flow: Flow): void {
    this.#sent.set(flow, 0)
  }

  delete(flow: Flow): void {
    this.#sent.delete(flow)
    this.#standing.delete(flow)
  }

  handed(flow: Flow, bytes: number): void {
    this.#sent.set(flow, (this.#sent.get(flow) ?? 0) + bytes)
    const { queuedBytes, maxQueuedBytes } = this.#sink
    if (queuedBytes <= maxQueuedBytes) return
    const moving = [...this.#sent.keys()].filter(other => !this.#standing.has(other))
    if (queuedBytes > 2 * maxQueuedBytes) for (const other of moving) this.#stop(other, queuedBytes)
    else {
      const largest = moving.reduce<Flow | null>(
        (a, b) => (a !== null && this.#sentBy(a) >= this.#sentBy(b) ? a : b),
        null,
      )
      if (largest !== null) this.#stop(largest, queuedBytes)
    }
    this.#relief ??= this.#relieve()
  }

  /** Lets what was sent long ago count less. */
  age(): void {
    for (const [flow, bytes] of this.#sent) this.#sent.set(flow, bytes / 2)
  }

  /** A socket stands still. */
  get full(): boolean {
    return this.#relief !== null
  }

  /** Resolves when no socket stands still; new ones should not be opened before. Resolves on abort. */
  async clear(): Promise<void> {
    while (this.#relief !== null && !this.#signal.aborted) await this.#relief
  }

  #sentBy(flow: Flow): number {
    return this.#sent.get(flow) ?? 0
  }

  #stop(flow: Flow, queuedBytes: number): void {
    this.#standing.add(flow)
    flow.pause()
    this.#paused(flow.worker, queuedBytes)
  }

  async #relieve(): Promise<void> {
    // Rejects when the journal closes or the signal aborts; both end every connection by another way.
    await this.#sink.relieved(this.#signal).catch(() => undefined)
    this.#relief = null
    const standing = [...this.#standing]
    this.#standing.clear()
    for (const flow of standing) flow.resume()
  }
}
