import type { RuntimePage, WorkerPage } from '@shoji/web-contract'
import { Hono } from 'hono'
import { viewTold } from '../../delivery/selection.ts'
import { ShojiError } from '../../lib/error.ts'
import type { Subject } from '../../projection/view.ts'
import type { Env, HttpDeps } from '../context.ts'
import { type FoundWorker, findWorker, observable, runtimeVisible } from '../find.ts'

/** What this viewer may observe, with status and upstream health. */
export function workerRoutes(deps: HttpDeps): Hono<Env> {
  const app = new Hono<Env>()
  app.get('/api/runtimes', c => {
    const visible = deps.runtimes.filter(runtime => runtimeVisible(deps, c.var.subject, runtime))
    const items: RuntimePage[] = visible.map(runtime => ({ runtime, ...health(deps, runtime) }))
    return c.json({ items })
  })
  app.get('/api/runtimes/:runtime/workers', c => {
    const { runtime } = c.req.param()
    if (!runtimeVisible(deps, c.var.subject, runtime))
      throw new ShojiError('runtime_not_found', 'no such runtime')
    const items = observable(deps, c.var.subject, runtime).map(found => describe(deps, c.var.subject, found))
    return c.json({ items })
  })
  app.get('/api/runtimes/:runtime/workers/:worker', c => {
    const { runtime, worker } = c.req.param()
    return c.json(describe(deps, c.var.subject, findWorker(deps, c.var.subject, runtime, worker)))
  })
  return app
}

function health(deps: HttpDeps, runtime: string, worker?: string) {
  const { upstream, since, code } = deps.upstream(runtime, worker)
  return { upstream, since, ...(code !== undefined && { code }) }
}

function describe(deps: HttpDeps, subject: Subject, { worker, view }: FoundWorker): WorkerPage {
  const at = { runtime: worker.runtime, worker: worker.worker }
  return {
    ...at,
    status: deps.statusOf(worker, subject),
    ...health(deps, at.runtime, at.worker),
    view: viewTold(at, view),
  }
}
