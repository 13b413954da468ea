import { Hono } from 'hono'
import { hostAllowed, originAllowed } from '../identity/who.ts'
import { ShojiError } from '../lib/error.ts'
import { refuseLargeBody } from './body.ts'
import type { Ctx, Env, HttpDeps } from './context.ts'
import { toProblem } from './errors.ts'
import { commandRoutes } from './routes/commands.ts'
import { eventRoutes } from './routes/events.ts'
import { healthRoutes } from './routes/health.ts'
import { historyRoutes } from './routes/history.ts'
import { sessionRoutes } from './routes/session.ts'
import { workerRoutes } from './routes/workers.ts'

/** What pages of listed origins may send: a token and a position, never a cookie. */
const PREFLIGHT = {
  'access-control-allow-methods': 'GET, POST, DELETE',
  'access-control-allow-headers': 'authorization, content-type, last-event-id, idempotency-key',
  'access-control-max-age': '600',
}

/** The whole API. Who may call from where is decided first, then who is asking, then what they may see. */
export function createApp(deps: HttpDeps, pages?: Hono<Env>): Hono<Env> {
  const app = new Hono<Env>()
  const problem = (c: Ctx, error: unknown): Response => {
    const answer = toProblem(error, new URL(c.req.url).pathname)
    if (answer.status >= 500) deps.log.error({ err: error, code: answer.code }, 'request failed')
    c.header('content-type', 'application/problem+json')
    c.header('cache-control', 'no-store')
    return c.body(JSON.stringify(answer), answer.status as 400)
  }
  app.onError((error, c) => problem(c, error))
  app.notFound(c => problem(c, new ShojiError('not_found', 'no such path')))

  app.use(async (c, next) => {
    c.header('x-content-type-options', 'nosniff')
    c.header('referrer-policy', 'no-referrer')
    await next()
  })
  app.route('/', healthRoutes(deps))
  app.use(async (c, next) => {
    const request = { method: c.req.method, headers: c.req.raw.headers }
    if (!hostAllowed(request, deps.rules))
      throw new ShojiError('host_unknown', 'this host is not served here')
    if (!originAllowed(request, deps.rules)) {
      deps.log.warn({ path: c.req.path, method: c.req.method }, 'origin refused')
      throw new ShojiError('origin_forbidden', 'this origin may not call')
    }
    const origin = c.req.header('origin')
    if (origin !== undefined && deps.rules.corsOrigins.includes(origin)) {
      c.header('access-control-allow-origin', origin)
      c.header('vary', 'origin')
      // A preflight carries no credentials; it is answered alike for all there is and is not.
      if (c.req.method === 'OPTIONS') return c.body(null, 204, PREFLIGHT)
    }
    return next()
  })
  app.use('/api/*', async (c, next) => {
    refuseLargeBody(c, deps.limits.requestBytes)
    await next()
  })
  app.route('/', sessionRoutes(deps))
  app.use('/api/*', async (c, next) => {
    const found = await deps.identify({ method: c.req.method, headers: c.req.raw.headers })
    if (found instanceof ShojiError) throw found
    c.set('subject', found.subject)
    c.set('by', found.by)
    await next()
  })
  app.route('/', eventRoutes(deps))
  app.route('/', workerRoutes(deps))
  app.route('/', historyRoutes(deps))
  app.route('/', commandRoutes(deps))
  if (pages !== undefined) app.route('/', pages)
  return app
}
