import { Hono } from 'hono'
import { ShojiError } from '../../lib/error.ts'
import { readJsonBody } from '../body.ts'
import type { Ctx, Env, HttpDeps } from '../context.ts'

/** Browser sign-in: a token for a cookie that scripts can't read. */
export function sessionRoutes(deps: HttpDeps): Hono<Env> {
  const app = new Hono<Env>()
  const caller = (c: Ctx) => ({ method: c.req.method, headers: c.req.raw.headers })

  app.post('/api/session', async c => {
    const body = await readJsonBody(c, deps.limits.requestBytes)
    const token = typeof body === 'object' && body !== null && 'token' in body ? body.token : undefined
    if (typeof token !== 'string') throw new ShojiError('bad_request', 'the body is {"token":"…"}')
    const headers = new Headers({ authorization: `Bearer ${token.slice(0, 4_096)}` })
    const found = await deps.identify({ method: 'POST', headers })
    if (found instanceof ShojiError) throw found
    const session = await deps.sessions.create(found.subject, deps.now())
    c.header('set-cookie', deps.cookie.set(session.id, session.expiresAt))
    return c.json(described(found.subject, session.expiresAt), 201)
  })
  app.get('/api/session', async c => {
    const found = await deps.identify(caller(c))
    if (found instanceof ShojiError) throw found
    return c.json(described(found.subject, found.subject.expiresAt))
  })
  app.delete('/api/session', async c => {
    const id = deps.cookie.read(c.req.raw.headers)
    if (id !== undefined) await deps.sessions.delete(id)
    c.header('set-cookie', deps.cookie.clear())
    return c.body(null, 204)
  })
  return app
}

const described = (subject: { user: string; roles: readonly string[] }, expiresAt: number | undefined) => ({
  user: subject.user,
  roles: subject.roles,
  expires_at: expiresAt ?? null,
})
