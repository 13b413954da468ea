import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { HISTORY_ITEMS, SELECTION_WORKERS_MAX } from '@shoji/web-contract'
import { Hono } from 'hono'
import { createAudience, type Selection } from '../../delivery/selection.ts'
import { ShojiError } from '../../lib/error.ts'
import type { Ctx, Env, HttpDeps } from '../context.ts'
import { findWorker, runtimeVisible } from '../find.ts'
import { wholeNumber } from '../query.ts'

/** Cursors are 22 characters; what is longer is malformed, and not looked at further. */
const CURSOR_CHARS_MAX = 256

/** The three streams. Everything a retry could mend is said inside a stream that began with 200. */
export function eventRoutes(deps: HttpDeps): Hono<Env> {
  const app = new Hono<Env>()

  app.get('/api/runtimes/:runtime/workers/:worker/events', c => {
    const { runtime, worker } = c.req.param()
    return open(c, { kind: 'worker', runtime, worker })
  })
  app.get('/api/runtimes/:runtime/events', c => {
    const { runtime } = c.req.param()
    if (!runtimeVisible(deps, c.var.subject, runtime))
      throw new ShojiError('runtime_not_found', 'no such runtime')
    return open(c, { kind: 'runtime', runtime })
  })
  app.get('/api/events', c => open(c, { kind: 'workers', workers: namedWorkers(c) }))

  function open(c: Ctx, selection: Selection): Response {
    const { subject } = c.var
    const history = wholeNumber(c.req.query('history'), 'history', {
      ...HISTORY_ITEMS,
      default: deps.limits.history,
    })
    if (selection.kind === 'worker') want(c, [selection])
    if (selection.kind === 'workers') want(c, selection.workers)
    const audience = createAudience(deps.folding.journal.keys.id, {
      selection,
      policy: deps.policy(),
      subject,
      history,
    })
    const asked = c.req.header('last-event-id') ?? c.req.query('cursor') ?? null
    const cursor = asked === '' ? null : (asked?.slice(0, CURSOR_CHARS_MAX) ?? null)
    // Nothing could ever be sent on it, so it must not hold a place either.
    if (c.req.raw.method === 'HEAD')
      return c.body(null, 200, { 'content-type': 'text/event-stream; charset=utf-8' })
    const { outgoing } = c.env
    for (const [name, value] of c.res.headers) outgoing.setHeader(name, value)
    deps.delivery.open(outgoing as never, audience, cursor)
    return RESPONSE_ALREADY_SENT
  }

  /** 404 only if none of the names is left; a worker that is not connected is asked for. */
  function want(c: Ctx, workers: readonly { runtime: string; worker: string }[]): void {
    const found = workers.flatMap(({ runtime, worker }) => {
      try {
        return [findWorker(deps, c.var.subject, runtime, worker)]
      } catch {
        return []
      }
    })
    if (found.length === 0) throw new ShojiError('worker_not_found', 'no such worker')
    for (const { worker } of found) deps.wanted(worker.runtime, worker.worker)
  }

  return app
}

function namedWorkers(c: Ctx): { runtime: string; worker: string }[] {
  const names = c.req.queries('worker') ?? []
  if (names.length === 0) throw new ShojiError('selection_invalid', 'name at least one worker')
  if (names.length > SELECTION_WORKERS_MAX)
    throw new ShojiError('selection_invalid', `name at most ${SELECTION_WORKERS_MAX} workers`)
  return names.map(name => {
    const slash = name.indexOf('/')
    if (slash < 1 || slash === name.length - 1)
      throw new ShojiError('selection_invalid', 'a worker is named runtime/worker')
    return { runtime: name.slice(0, slash), worker: name.slice(slash + 1) }
  })
}
