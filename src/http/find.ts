import type { KnownWorker, Sight } from '../delivery/selection.ts'
import { ShojiError } from '../lib/error.ts'
import type { Subject, View } from '../projection/view.ts'
import type { HttpDeps } from './context.ts'

export interface FoundWorker {
  readonly worker: KnownWorker
  readonly view: View
}

/** A worker this subject may observe; one it may not is not there, exactly as one that does not exist. */
export function findWorker(deps: HttpDeps, subject: Subject, runtime: string, worker: string): FoundWorker {
  const known = deps.workers().find(w => w.runtime === runtime && w.worker === worker)
  const view = known && deps.policy().view(subject, known)
  if (known === undefined || !view?.observe) throw new ShojiError('worker_not_found', 'no such worker')
  return { worker: known, view }
}

export function sightOf({ worker, view }: FoundWorker): Sight | null {
  const { stream, runtime } = worker
  if (stream === undefined) return null
  return { record: stream, view, place: { stream: stream.id, runtime, worker: worker.worker } }
}

/** Workers of one runtime that this subject may observe. */
export const observable = (deps: HttpDeps, subject: Subject, runtime?: string): FoundWorker[] =>
  deps
    .workers()
    .filter(w => runtime === undefined || w.runtime === runtime)
    .map(worker => ({ worker, view: deps.policy().view(subject, worker) }))
    .filter(found => found.view.observe)

/** True where the subject sees a worker of this runtime, or could see one that is still to come. */
export function runtimeVisible(deps: HttpDeps, subject: Subject, runtime: string): boolean {
  if (!deps.runtimes.includes(runtime)) return false
  const coming = { source: 'runtime' as const, runtime, worker: '', profile: null }
  return deps.policy().view(subject, coming).observe || observable(deps, subject, runtime).length > 0
}
