import { commandRequestSchema } from '@shoji/web-contract'
import { Hono } from 'hono'
import { ShojiError } from '../../lib/error.ts'
import { readJsonBody } from '../body.ts'
import type { Env, HttpDeps } from '../context.ts'
import { findWorker } from '../find.ts'

/** The road back. Only a user's message is forwarded so far; a denied command never reaches a socket. */
export function commandRoutes(deps: HttpDeps): Hono<Env> {
  const app = new Hono<Env>()
  app.post('/api/runtimes/:runtime/workers/:worker/commands', async c => {
    const { runtime, worker } = c.req.param()
    const { worker: known, view } = findWorker(deps, c.var.subject, runtime, worker)
    const body = await readJsonBody(c, deps.limits.requestBytes)
    const request = commandRequestSchema.safeParse(body)
    if (!request.success) throw new ShojiError('command_unknown', 'no command this server knows')
    if (!view.commands.includes(request.data.command))
      throw new ShojiError('command_denied', 'this command is not granted')
    const receipt = await deps.sendInput(known, c.var.subject, request.data.content)
    return c.json(receipt, receipt.state === 'done' ? 200 : 202)
  })
  return app
}
