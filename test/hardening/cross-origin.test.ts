import { afterAll, beforeAll, expect, it } from 'vitest'
import { bearer, type Flow, startFlow } from '../_support/flow.ts'

const LISTED = 'https://app.example'
const FOREIGN = 'https://evil.example'

let flow: Flow
beforeAll(async () => {
  flow = await startFlow({ extra: `cors: { origins: ["${LISTED}"] }` })
})
afterAll(() => flow[Symbol.asyncDispose]())

const preflight = (origin: string, path: string): Promise<Response> =>
  fetch(flow.shoji.url + path, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'authorization,last-event-id',
    },
  })

it('answers the preflight of a listed origin without credentials, so that its pages can send a token', async () => {
  for (const path of [
    '/api/runtimes/rt/workers/1/events',
    '/api/runtimes/rt/workers/1/commands',
    '/api/events',
  ]) {
    const answer = await preflight(LISTED, path)
    expect(answer.status).toBe(204)
    expect(answer.headers.get('access-control-allow-origin')).toBe(LISTED)
    expect(answer.headers.get('vary')).toContain('origin')
    expect(answer.headers.get('access-control-allow-credentials')).toBe(null)
    const allowed = (answer.headers.get('access-control-allow-headers') ?? '').split(/, */)
    expect(allowed).toEqual(expect.arrayContaining(['authorization', 'content-type', 'last-event-id']))
    expect(answer.headers.get('access-control-allow-methods')).toMatch(/GET.*POST/)
  }
})

it('tells a preflight nothing of what there is: known and unknown paths are answered alike', async () => {
  const headers = async (path: string) => {
    const answer = await preflight(LISTED, path)
    return { status: answer.status, headers: { ...Object.fromEntries(answer.headers), date: '' } }
  }
  expect(await headers('/api/runtimes/rt/workers/1')).toEqual(await headers('/api/runtimes/rt/workers/99'))
})

it('refuses the preflight of a foreign origin', async () => {
  const answer = await preflight(FOREIGN, '/api/runtimes')
  expect(answer.status).toBe(403)
  expect(answer.headers.get('access-control-allow-origin')).toBe(null)
})

it('lets pages of a listed origin read streams, pages and problems, with a token alone', async () => {
  const ask = (path: string, headers: Record<string, string>) =>
    fetch(flow.shoji.url + path, {
      headers: { origin: LISTED, 'sec-fetch-site': 'cross-site', ...headers },
      signal: AbortSignal.timeout(5_000),
    })
  const stream = await ask('/api/runtimes/rt/workers/1/events', bearer('admin'))
  const page = await ask('/api/runtimes', bearer('admin'))
  const missing = await ask('/api/runtimes/rt/workers/99', bearer('admin'))
  const unknown = await ask('/api/runtimes', {})
  expect([stream.status, page.status, missing.status, unknown.status]).toEqual([200, 200, 404, 401])
  for (const answer of [stream, page, missing, unknown])
    expect(answer.headers.get('access-control-allow-origin')).toBe(LISTED)
  await stream.body?.cancel()
})
