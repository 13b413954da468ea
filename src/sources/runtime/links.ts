import type { ListedWorker } from '../source.ts'
import type { LinkDeps } from './link-deps.ts'
import { isAlive } from './lives.ts'
import { WorkerLink } from './worker-link.ts'

/** The links of one Runtime: one for each worker that runs, or that does not and was asked for. */
export class Links {
  readonly #deps: LinkDeps
  readonly #signal: AbortSignal
  readonly #broken: (cause: unknown) => void
  readonly #links = new Map<string, WorkerLink>()
  readonly #running = new Set<Promise<void>>()
  /** Asked for before they were listed. */
  readonly #wanted = new Set<string>()
  #admitted: ReadonlySet<string> = new Set()
  #listed: ReadonlyMap<string, ListedWorker> = new Map()

  /** Links end with the signal. `broken` is told of one that ended by a fault in this program. */
  constructor(deps: LinkDeps, signal: AbortSignal, broken: (cause: unknown) => void) {
    this.#deps = deps
    this.#signal = signal
    this.#broken = broken
  }

  get listed(): ReadonlyMap<string, ListedWorker> {
    return this.#listed
  }

  /** Takes a new listing. Returns how many running workers are beyond the limit of connections. */
  update(workers: readonly ListedWorker[]): number {
    const before = this.#listed
    this.#listed = new Map(workers.map(worker => [worker.worker, worker]))
    const alive = workers.filter(worker => isAlive(worker.status)).map(worker => worker.worker)
    this.#admitted = this.#admit(alive)
    for (const worker of workers) this.#news(worker)
    for (const [id, link] of this.#links) if (!this.#listed.has(id)) link.update(null, false)
    for (const id of before.keys()) {
      // What has no link any more has told its end.
      if (!this.#listed.has(id) && !this.#links.has(id)) this.#deps.status.forget(id)
    }
    this.#wanted.clear()
    return alive.length - this.#admitted.size
  }

  /** False if the worker is not listed; it is then remembered until the next listing. */
  want(id: string): boolean {
    const listed = this.#listed.get(id)
    if (listed !== undefined) {
      this.#linkOf(listed).want()
      return true
    }
    if (this.#wanted.size < this.#deps.limits.wantedAhead) this.#wanted.add(id)
    return false
  }

  nudge(): void {
    for (const link of this.#links.values()) link.nudge()
  }

  /** Resolves when every link has ended. */
  async ended(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  #news(listed: ListedWorker): void {
    const id = listed.worker
    const wanted = this.#wanted.has(id)
    if (!isAlive(listed.status) && !wanted && !this.#links.has(id)) {
      this.#deps.status.set(id, 'gone')
      return
    }
    const link = this.#linkOf(listed)
    link.update(listed, this.#admitted.has(id))
    if (wanted) link.want()
  }

  #linkOf(listed: ListedWorker): WorkerLink {
    const known = this.#links.get(listed.worker)
    if (known !== undefined && !known.done) return known
    const link = new WorkerLink(listed, this.#admitted.has(listed.worker), this.#deps)
    this.#links.set(listed.worker, link)
    const running = link
      .run(this.#signal)
      .catch(this.#broken)
      .finally(() => {
        this.#running.delete(running)
        if (this.#links.get(listed.worker) === link) this.#links.delete(listed.worker)
      })
    this.#running.add(running)
    return link
  }

  /** Who has a connection keeps it; places that fell free go to the first of the listing. */
  #admit(alive: readonly string[]): ReadonlySet<string> {
    const { connections } = this.#deps.limits
    const admitted = new Set(alive.filter(id => this.#admitted.has(id)))
    for (const id of alive) {
      if (admitted.size >= connections) break
      admitted.add(id)
    }
    return admitted
  }
}
