import { Hono } from 'hono'
import type { Env, HttpDeps } from '../context.ts'

/** Alive, and may serve. Exempt from the host rule: probes come by address. */
export function healthRoutes(deps: HttpDeps): Hono<Env> {
  const app = new Hono<Env>()
  app.get('/healthz', c => c.json({ alive: true }))
  app.get('/readyz', c => {
    const { ready, detail } = deps.ready()
    return c.json({ ready, ...detail }, ready ? 200 : 503)
  })
  return app
}
