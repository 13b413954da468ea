import { systemClock } from '../../lib/clock.ts'
import { ShojiError } from '../../lib/error.ts'
import { asSeq, type Entry, type Seq } from '../entry.ts'
import type { AppendBatch, Commit, JournalHealth } from '../journal.ts'
import type { WriterLink } from './link.ts'
import type { CommitRequest } from './protocol.ts'
import { type Flattened, flatten, measure } from './rows.ts'
import { createWaiters } from './waiters.ts'

export interface FlushLimits {
  /** A flush starts at most this long after its first entry, or twice the last commit where that is longer. */
  readonly flushMs: number
  /** ... and no longer than this however slow the disk is. */
  readonly maxFlushMs: number
  /** So many entries start a flush at once. */
  readonly flushEntries: number
  /** Bounds of one transaction, for what has gathered behind a slow one; a larger append goes alone. */
  readonly maxBatchEntries: number
  readonly maxBatchBytes: number
  readonly retryMinMs: number
  readonly retryMaxMs: number
}

export const FLUSH_LIMITS: FlushLimits = {
  flushMs: 5,
  maxFlushMs: 250,
  flushEntries: 512,
  // A busy main thread sends one transaction a turn of its loop: what it read in that turn should fit.
  maxBatchEntries: 16_384,
  maxBatchBytes: 16 * 1024 * 1024,
  retryMinMs: 250,
  retryMaxMs: 5000,
}

/** What a journal tells of itself, for counters and the log. */
export interface JournalEvents {
  readonly committed?: (at: { entries: number; bytes: number; repeated: number; ms: number }) => void
  readonly failed?: (at: { code: string; cause: unknown; attempt: number }) => void
  /** A listener threw: a fault of this program. Without this hook it ends the process. */
  readonly listenerFailed?: (error: unknown) => void
}

interface Part {
  readonly batch: AppendBatch
  readonly bytes: number
}

/** Parts that are committed together. */
interface Flush {
  readonly parts: readonly Part[]
  readonly request: Omit<CommitRequest, 'kind'>
  readonly bytes: number
}

export interface CommitterOptions {
  readonly link: WriterLink
  readonly head: Seq
  readonly limits: FlushLimits
  readonly now: () => number
  readonly events: JournalEvents
  /** Each batch that became durable, before anyone else hears of it. */
  readonly onDurable: (batch: AppendBatch) => void
}

const merge = (parts: readonly Part[], now: () => number): Flush => {
  const flat: Flattened = { cells: [], checkpoints: [] }
  const incarnations = new Map<number, number>()
  const positions = new Map<number, string>()
  let bytes = 0
  for (const part of parts) {
    flatten(part.batch, flat, now)
    for (const { stream, incarnation } of part.batch.incarnations ?? []) incarnations.set(stream, incarnation)
    for (const { stream, position } of part.batch.positions ?? []) positions.set(stream, position)
    bytes += part.bytes
  }
  return {
    parts,
    bytes,
    request: {
      ...flat,
      incarnations: [...incarnations].flat(),
      positions: [...positions].map(([stream, position]) => ({ stream, position })),
    },
  }
}

/**
 * Group commit: gathers what is appended, hands it to the writer one transaction at a time, and tells who
 * waits once it is durable. A transaction that fails is kept as it is and tried again, so that order and
 * content do not depend on failures; until it succeeds nothing is published.
 */
export class Committer {
  readonly #options: CommitterOptions
  readonly #waiters = createWaiters(seq => seq <= this.#settled)
  readonly #changes = createWaiters(seq => this.#head > seq)
  readonly #listeners = new Set<(commit: Commit) => void>()
  readonly #healthListeners = new Set<(health: JournalHealth) => void>()
  readonly #closing = new AbortController()

  #gathering: Part[] = []
  #gatheredEntries = 0
  #timer: NodeJS.Timeout | undefined
  #due = false
  #running: Promise<void> | undefined

  #queuedBytes = 0
  #appended: Seq
  #settled: Seq
  #head: Seq
  #lastCommitMs = 0
  #health: JournalHealth = { state: 'ok' }
  #damaged = false

  readonly counts = { commits: 0, commitMs: 0, repeated: 0 }

  constructor(options: CommitterOptions) {
    this.#options = options
    this.#head = options.head
    this.#settled = options.head
    this.#appended = options.head
  }

  get head(): Seq {
    return this.#head
  }
  get queuedBytes(): number {
    return this.#queuedBytes
  }
  get health(): JournalHealth {
    return this.#health
  }

  append(batch: AppendBatch): void {
    if (this.#closing.signal.aborted) throw new ShojiError('journal_closed', 'the journal is closed')
    const part: Part = { batch, bytes: measure(batch, this.#appended) }
    const last = batch.entries.at(-1)
    if (last !== undefined) this.#appended = last.seq
    this.#queuedBytes += part.bytes
    this.#gathering.push(part)
    this.#gatheredEntries += batch.entries.length
    if (this.#gatheredEntries >= this.#options.limits.flushEntries) this.#flush()
    else if (this.#gathering.length === 1) this.#arm()
  }

  durable(seq: Seq, signal?: AbortSignal): Promise<void> {
    return this.#waiters.wait(seq, signal)
  }

  async changedSince(seq: Seq, signal: AbortSignal): Promise<Seq> {
    await this.#changes.wait(seq, signal)
    return this.#head
  }

  onCommit(listener: (commit: Commit) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  onHealth(listener: (health: JournalHealth) => void): () => void {
    this.#healthListeners.add(listener)
    return () => void this.#healthListeners.delete(listener)
  }

  /** The file was found to be damaged, by a reader or the writer: unavailable until a restart. */
  damaged(): void {
    this.#damaged = true
    this.#setHealth({ state: 'unavailable', code: 'journal_damaged', since: this.#options.now() })
  }

  /** Commits what is queued, unless that fails; then lets go of all who wait. */
  async close(): Promise<void> {
    this.#closing.abort()
    clearTimeout(this.#timer)
    while (this.#running !== undefined || this.#gathering.length > 0) {
      if (this.#health.state === 'unavailable' && this.#running === undefined) break
      this.#flush()
      await this.#running
    }
    const closed = new ShojiError('journal_closed', 'the journal is closed')
    this.#waiters.fail(closed)
    this.#changes.fail(closed)
    this.#listeners.clear()
    this.#healthListeners.clear()
  }

  #arm(): void {
    const { flushMs, maxFlushMs } = this.#options.limits
    const delay = Math.min(maxFlushMs, Math.max(flushMs, 2 * this.#lastCommitMs))
    this.#timer = setTimeout(() => this.#flush(), delay)
  }

  /** Starts a flush, or has the running one start it when it ends. */
  #flush(): void {
    clearTimeout(this.#timer)
    if (this.#gathering.length === 0) return
    this.#due = true
    this.#running ??= this.#run()
  }

  async #run(): Promise<void> {
    while (this.#due && this.#gathering.length > 0) {
      const flush = merge(this.#take(), this.#options.now)
      if (!(await this.#commit(flush))) break
    }
    this.#running = undefined
  }

  #take(): Part[] {
    const { maxBatchEntries, maxBatchBytes } = this.#options.limits
    let entries = 0
    let bytes = 0
    let count = 0
    for (const part of this.#gathering) {
      const more = part.batch.entries.length
      bytes += part.bytes
      if (count > 0 && (entries + more > maxBatchEntries || bytes > maxBatchBytes)) break
      entries += more
      count++
    }
    const taken = this.#gathering.splice(0, count)
    this.#gatheredEntries -= entries
    // What remains has waited already.
    this.#due = this.#gathering.length > 0
    return taken
  }

  /** Tries until it is durable. False: the journal closes, and it is not. */
  async #commit(flush: Flush): Promise<boolean> {
    for (let attempt = 1; ; attempt++) {
      try {
        const { repeated, ms } = await this.#options.link.send('commit', flush.request)
        this.#lastCommitMs = ms
        this.#succeeded(flush, repeated, ms)
        return true
      } catch (error) {
        this.#failed(error, attempt)
        if (this.#closing.signal.aborted) return false
        await this.#pause(attempt)
        if (this.#closing.signal.aborted) return false
      }
    }
  }

  #failed(error: unknown, attempt: number): void {
    const code = error instanceof ShojiError ? error.code : 'journal_unavailable'
    const cause = error instanceof ShojiError ? error.facts.cause : error
    this.#options.events.failed?.({ code, cause, attempt })
    if (code === 'journal_damaged') this.damaged()
    else if (code === 'disk_full' || code === 'journal_unavailable')
      this.#setHealth({ state: 'unavailable', code, since: this.#options.now() })
  }

  #pause(attempt: number): Promise<void> {
    const { retryMinMs, retryMaxMs } = this.#options.limits
    const delay = this.#damaged
      ? retryMaxMs
      : Math.min(retryMaxMs, retryMinMs * 2 ** Math.min(attempt - 1, 10))
    return systemClock.after(delay, this.#closing.signal)
  }

  #succeeded(flush: Flush, repeated: readonly number[], ms: number): void {
    const dropped = new Set(repeated)
    const entries: Entry[] = []
    let last: Seq | undefined
    for (const { batch } of flush.parts) {
      this.#options.onDurable(batch)
      for (const entry of batch.entries) {
        last = entry.seq
        if (!dropped.has(entry.seq)) entries.push(entry)
      }
    }
    this.#queuedBytes -= flush.bytes
    this.counts.commits++
    this.counts.commitMs += ms
    this.counts.repeated += dropped.size
    const after = this.#head
    // A dropped entry's seq is not stored, so no cursor may name it: it would lie beyond the end after a restart.
    this.#head = entries.at(-1)?.seq ?? after
    if (last !== undefined) this.#settled = last
    this.#options.events.committed?.({
      entries: entries.length,
      bytes: flush.bytes,
      repeated: dropped.size,
      ms,
    })
    if (!this.#damaged) this.#setHealth({ state: 'ok' })
    if (entries.length > 0) this.#tell(this.#listeners, { after: asSeq(after), head: this.#head, entries })
    this.#changes.wake()
    this.#waiters.wake()
  }

  #setHealth(health: JournalHealth): void {
    const before = this.#health
    if (
      health.state === before.state &&
      (health.state === 'ok' || before.state === 'ok' || health.code === before.code)
    )
      return
    this.#health =
      health.state === 'unavailable' && before.state === 'unavailable'
        ? { ...health, since: before.since }
        : health
    this.#tell(this.#healthListeners, this.#health)
  }

  #tell<T>(listeners: ReadonlySet<(value: T) => void>, value: T): void {
    for (const listener of listeners) {
      try {
        listener(value)
      } catch (error) {
        const report = this.#options.events.listenerFailed
        if (report !== undefined) report(error)
        else
          queueMicrotask(() => {
            throw error
          })
      }
    }
  }
}
