import type { UpstreamState } from '@shoji/web-contract'
import type { StatusChange } from '../source.ts'

/** What is said of the Runtime (without worker) and of each worker; only a change is told. */
export class StatusBoard {
  readonly #runtime: string
  readonly #now: () => number
  readonly #tell: (change: StatusChange) => void
  readonly #workers = new Map<string, StatusChange>()
  #own: StatusChange

  constructor(runtime: string, now: () => number, tell: (change: StatusChange) => void) {
    this.#runtime = runtime
    this.#now = now
    this.#tell = tell
    this.#own = { runtime, upstream: 'reconnecting', since: now() }
  }

  set(worker: string | undefined, upstream: UpstreamState, code?: string): void {
    const before = worker === undefined ? this.#own : this.#workers.get(worker)
    if (before?.upstream === upstream && before.code === code) return
    const change: StatusChange = {
      runtime: this.#runtime,
      ...(worker === undefined ? {} : { worker }),
      upstream,
      ...(code === undefined ? {} : { code }),
      // The state's beginning, not its code's: a worker that is retried is away since the first loss.
      since: before?.upstream === upstream ? before.since : this.#now(),
    }
    if (worker === undefined) this.#own = change
    else this.#workers.set(worker, change)
    this.#tell(change)
  }

  forget(worker: string): void {
    this.#workers.delete(worker)
  }

  /** A worker that nothing was said of is as its Runtime is while that is away, else not there. */
  of(worker?: string): StatusChange {
    if (worker === undefined) return this.#own
    const known = this.#workers.get(worker)
    if (known !== undefined) return known
    const { upstream, since } = this.#own
    return upstream === 'live'
      ? { runtime: this.#runtime, worker, upstream: 'gone', code: 'upstream_worker_gone', since }
      : { ...this.#own, worker }
  }
}
