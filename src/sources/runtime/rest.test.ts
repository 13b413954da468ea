import { afterEach, beforeEach, expect, test } from 'vitest'
import { VirtualClock } from '../../../test/_support/virtual-clock.ts'
import { startWireServer, type WireServer } from '../../../test/_support/wire-server.ts'
import { systemClock } from '../../lib/clock.ts'
import { ShojiError } from '../../lib/error.ts'
import { createRuntimeRest } from './rest.ts'

const LIMITS = { requestMs: 10_000, bodyBytes: 10_000, listedWorkers: 3 }
const signal = () => new AbortController().signal

let server: WireServer

beforeEach(async () => {
  server = await startWireServer()
})

afterEach(async () => {
  await server[Symbol.asyncDispose]()
})

const rest = (token?: string, clock = systemClock) =>
  createRuntimeRest({
    url: `${server.url}/`,
    limits: LIMITS,
    clock,
    ...(token === undefined ? {} : { token }),
  })

const answer = (status: number, body = '', headers: Record<string, string> = {}): void => {
  server.onRequest = (_request, response) => response.writeHead(status, headers).end(body)
}

const failure = async (call: Promise<unknown>): Promise<ShojiError> => {
  const error = await call.then(
    () => undefined,
    (cause: unknown) => cause,
  )
  if (!(error instanceof ShojiError)) throw new Error(`not a typed error: ${String(error)}`)
  return error
}

test('a listing of either generation gives ids as text, profiles by name, and ignores what it does not know', async () => {
  answer(
    200,
    `{"added":1,"workers":[
      {"worker_ref":{"worker_id":18446744073709551615},"worker_id":18446744073709551615,"status":"running","profile":{"kind":"named","value":"demo"},"last_event_id":2},
      {"worker_id":"01a22d33-3429-7254-b7a9-f895bc3e8306","status":"idle","display_name":"Demo worker","profile":{"kind":"inline","value":"demo"}},
      {"worker_id":3,"status":"odd","profile":7,"display_name":null}]}`,
  )
  expect(await rest().workers(signal())).toEqual({
    beyondLimit: 0,
    workers: [
      { worker: '18446744073709551615', profile: 'demo', status: 'running' },
      {
        worker: '01a22d33-3429-7254-b7a9-f895bc3e8306',
        profile: 'inline:demo',
        status: 'idle',
        displayName: 'Demo worker',
      },
      { worker: '3', profile: null, status: 'odd' },
    ],
  })
})

test('a row that cannot be read hides no other, and an id that would leave its path is none', async () => {
  answer(
    200,
    '{"workers":[{"worker_id":"..","status":"running"},{"worker_id":"a b","status":"x"},{"worker_id":1,"status":"running"},{"worker_id":2,"status":"idle"}]}',
  )
  expect(await rest().workers(signal())).toEqual({
    beyondLimit: 1,
    workers: [{ worker: '1', profile: null, status: 'running' }],
  })
})

test('the token stands in every call, exactly', async () => {
  answer(200, '{"workers":[]}')
  await rest('demo-token').workers(signal())
  await rest().workers(signal())
  expect(server.requests.map(({ url, headers }) => [url, headers.authorization])).toEqual([
    ['/v1/workers', 'Bearer demo-token'],
    ['/v1/workers', undefined],
  ])
})

test('an input is a user message to the worker, whose id is encoded', async () => {
  let seen = ''
  server.onRequest = (request, response, body) => {
    seen = `${request.method} ${request.url} ${request.headers['content-type']} ${body}`
    response.end('an answer of any form')
  }
  await rest().sendInput('a/b', 'say "hi"', signal())
  expect(seen).toBe('POST /v1/workers/a%2Fb/input application/json {"kind":"user","content":"say \\"hi\\""}')
})

test('no call reuses the socket of another', async () => {
  answer(200, '{"workers":[]}')
  await rest().workers(signal())
  await rest().workers(signal())
  expect(new Set(server.requests.map(({ socket }) => socket)).size).toBe(2)
})

test('one worker can be asked for', async () => {
  answer(200, '{"worker":{"worker_id":1,"status":"running"}}')
  expect(await rest().worker('1', signal())).toEqual({ worker: '1', profile: null, status: 'running' })
})

test.each([
  [401, '{"error":{"code":"unauthorized","message":"m"}}', 'upstream_unauthorized'],
  [404, '{"error":{"code":"worker_not_found","message":"m"}}', 'upstream_worker_gone'],
  [404, '', 'upstream_route_missing'],
  [404, '<html></html>', 'upstream_protocol'],
  [405, '', 'upstream_route_missing'],
  [409, '{"error":{"code":"worker_execution_rejected","message":"m"}}', 'worker_busy'],
  [409, '{"error":{"code":"something_else","message":"m"}}', 'upstream_protocol'],
  [400, '{"error":{"code":"invalid_request","message":"m"}}', 'bad_request'],
  [400, "Connection header did not include 'upgrade'", 'upstream_protocol'],
  [500, '{"error":{"code":"internal","message":"m"}}', 'upstream_unreachable'],
  [502, '<html></html>', 'upstream_unreachable'],
])('an answer %i %s is %s', async (status, body, code) => {
  answer(status, body)
  expect(await failure(rest().sendInput('1', 'x', signal()))).toMatchObject({ code, facts: { status } })
})

test('a redirect is an error and not followed', async () => {
  answer(302, '', { location: '/v1/elsewhere' })
  expect(await failure(rest().workers(signal()))).toMatchObject({
    code: 'upstream_protocol',
    facts: { status: 302 },
  })
  expect(server.requests).toHaveLength(1)
})

test('a body beyond the bound, bad JSON and an unknown form are protocol errors', async () => {
  for (const body of [`{"workers":[],"x":"${'x'.repeat(20_000)}"}`, '{"workers":', '{"workers":1}', '']) {
    answer(200, body)
    expect(await failure(rest().workers(signal()))).toMatchObject({ code: 'upstream_protocol' })
  }
})

test('an answer that does not end is given up in its time', async () => {
  const clock = new VirtualClock()
  const asked = new Promise<void>(resolve => {
    server.onRequest = (_request, response) => {
      response.writeHead(200).write('{"workers"')
      resolve()
    }
  })
  const call = failure(rest(undefined, clock).workers(signal()))
  await asked
  await clock.advance(LIMITS.requestMs)
  expect(await call).toMatchObject({
    code: 'upstream_unreachable',
    facts: { why: 'timeout', delivered: 'unknown' },
  })
  expect(clock.pending).toBe(0)
})

test('a call ends with its signal', async () => {
  const control = new AbortController()
  server.onRequest = () => control.abort()
  expect(await failure(rest().workers(control.signal))).toMatchObject({ code: 'aborted' })
  expect(await failure(rest().workers(control.signal))).toMatchObject({ code: 'aborted' })
})

test('errors tell whether the Runtime can have acted, and hold neither its address, its token nor its words', async () => {
  const refused = '{"error":{"code":"worker_execution_rejected","message":"on socket /run/demo.sock"}}'
  answer(409, refused)
  const busy = await failure(rest('demo-token').sendInput('1', 'x', signal()))
  server.onRequest = request => request.socket.destroy()
  const cut = await failure(rest('demo-token').sendInput('1', 'x', signal()))
  await server[Symbol.asyncDispose]()
  const away = await failure(rest('demo-token').sendInput('1', 'x', signal()))
  expect([busy, cut, away].map(({ facts }) => facts.delivered)).toEqual(['no', 'unknown', 'no'])
  expect([cut, away].map(({ code }) => code)).toEqual(['upstream_unreachable', 'upstream_unreachable'])
  for (const error of [busy, cut, away]) {
    const whole = JSON.stringify([error.message, error.facts, String(error.cause)])
    expect(whole).not.toMatch(/127\.0\.0\.1|localhost|demo-token|demo\.sock/)
    expect(error.cause).toBeUndefined()
  }
  server = await startWireServer()
})
