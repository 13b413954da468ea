/** What anybody may send, and what a Runtime may: each answered in its place, and nothing else disturbed. */
import { request } from 'node:http'
import { connect } from 'node:net'
import { PROBLEMS } from '@shoji/web-contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { misbehave } from '../../src/embedded-runtime/misbehave.ts'
import { startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import { bearer, eventually, type Flow, outcomeOf, QUICK, saw, startFlow, tell } from '../_support/flow.ts'
import { startShoji, TOKENS } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'

/** `guest` sees the first worker alone. */
const POLICY = `
version: 1
subjects:
  admins: { any: [ { role: admin } ] }
  guests: { any: [ { role: guest } ] }
resources:
  first: { runtime: [rt], worker: ["1"] }
statements:
  - id: all
    who: admins
    on: "*"
    grant:
      observe: true
      classes: { user_input: show, assistant_text: show, thinking: show, tool_call: show, tool_args: show, tool_output: show, diagnostics: show, system: show, workspace: show, usage: show, lifecycle: show, unknown: show }
      commands: [input.user]
  - id: first-alone
    who: guests
    on: first
    grant: { observe: true, classes: { user_input: show, assistant_text: show, lifecycle: show } }
`

interface Answer {
  readonly status: number
  readonly headers: Record<string, unknown>
  readonly body: string
}

let flow: Flow
/** Watches all the while: whatever is sent below must not disturb it. */
let watching: TestStream

beforeAll(async () => {
  flow = await startFlow({ workers: 2, policy: POLICY, extra: 'limits: { request_bytes: 4KiB }' })
  watching = await flow.open({ timeoutMs: 20_000 })
  await watching.untilLive()
})

afterAll(async () => {
  // Nothing above has stopped the flow, cut its viewer, or been told to it.
  tell(flow.worker, 'after all of it')
  await watching.until(saw(flow.worker, 'after all of it'), 'the viewer who watched all the while')
  expect(watching.frames.filter(f => f.event === 'hello' || f.event === 'bye')).toHaveLength(1)
  watching.cut()
  await flow[Symbol.asyncDispose]()
})

interface Asked {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string | Buffer
  /** Without a length, in pieces. */
  readonly chunked?: boolean
}

const ask = (
  path: string,
  { method = 'GET', headers = {}, body, chunked = false }: Asked = {},
): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const { port } = flow.shoji.service
    const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }, response => {
      const chunks: Buffer[] = []
      response.on('data', chunk => chunks.push(chunk))
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString(),
        }),
      )
      response.on('error', reject)
    })
    sent.on('error', reject)
    if (body !== undefined && !chunked) sent.setHeader('content-length', Buffer.byteLength(body))
    if (body !== undefined) sent.write(body)
    sent.end()
  })

const admin = bearer('admin')
const guest = bearer('guest')

/** The answer is a problem document of this code, and says no more than it should. */
function expectProblem(answer: Answer, code: keyof typeof PROBLEMS): void {
  expect({ status: answer.status, type: answer.headers['content-type'] }, answer.body).toEqual({
    status: PROBLEMS[code],
    type: 'application/problem+json',
  })
  const problem = JSON.parse(answer.body)
  expect(Object.keys(problem)).toEqual(['type', 'title', 'status', 'code', 'detail', 'instance'])
  expect(problem).toMatchObject({ status: PROBLEMS[code], code })
  expect(answer.body).not.toMatch(/at \w+ \(|node_modules|\/src\/|SQLITE/)
}

const EVENTS = '/api/runtimes/rt/workers/1/events'
const COMMANDS = '/api/runtimes/rt/workers/1/commands'

// ── cursors ─────────────────────────────────────────────────────────────────────────────────────────────

for (const [what, cursor] of [
  ['too short', 'AAAA'],
  ['too long', 'A'.repeat(23)],
  ['far too long', 'A'.repeat(8_000)],
  ['with bits that must be zero', `${'A'.repeat(21)}B`],
  ['of another alphabet', `${'A'.repeat(20)}+/`],
  ['a word', 'null'],
  ['a number', '-1'],
] as const)
  it(`answers a cursor that is ${what} with a reset inside the stream, from the header and from the query`, async () => {
    for (const options of [{ lastEventId: cursor }, { query: { cursor } }]) {
      using stream = await flow.open(options)
      await stream.untilLive()
      expect(outcomeOf(stream)).toBe('reset cursor_malformed')
      expect(stream.frames.map(f => f.event)).toEqual(['hello', 'snapshot', 'caught_up'])
    }
  })

it('takes a cursor with control characters or other scripts in the query for malformed', async () => {
  for (const cursor of ['\u0000', '日本語', 'a\r\nb', '../../etc/passwd', '%']) {
    using stream = await flow.open({ query: { cursor } })
    await stream.untilLive()
    expect(outcomeOf(stream)).toBe('reset cursor_malformed')
  }
})

it('looks at the header alone where both are sent', async () => {
  using stream = await flow.open({ lastEventId: watching.position!, query: { cursor: 'nonsense' } })
  await stream.untilLive()
  expect(outcomeOf(stream)).toBe('resumed')
})

it('answers a malformed cursor of a page with a problem', async () => {
  const history = '/api/runtimes/rt/workers/1/history'
  expectProblem(await ask(`${history}?before=nonsense`, { headers: admin }), 'cursor_malformed')
  expectProblem(await ask(`${history}?before=${'A'.repeat(43)}`, { headers: admin }), 'view_changed')
})

// ── names and selections ────────────────────────────────────────────────────────────────────────────────

it('answers an unknown worker or runtime with 404, whatever is asked of it', async () => {
  for (const path of ['/workers/99', '/workers/99/events', '/workers/99/history', '/workers/99/items/x/rest'])
    expectProblem(await ask(`/api/runtimes/rt${path}`, { headers: admin }), 'worker_not_found')
  for (const path of ['/workers', '/events'])
    expectProblem(await ask(`/api/runtimes/nowhere${path}`, { headers: admin }), 'runtime_not_found')
  expectProblem(await ask('/api/runtimes/nowhere/workers/1', { headers: admin }), 'worker_not_found')
  expectProblem(await ask('/api/events?worker=rt/99&worker=rt/98', { headers: admin }), 'worker_not_found')
})

it('answers names that try to be more than names with 404', async () => {
  for (const name of ['..%2f1', '%00', '*', '1%20', '%E0%A4%A', '__proto__', 'constructor', '1;x', '01'])
    expectProblem(
      await ask(`/api/runtimes/rt/workers/${name}/events`, { headers: admin }),
      'worker_not_found',
    )
})

for (const [what, query] of [
  ['no worker', ''],
  ['an empty name', '?worker='],
  ['a name without a runtime', '?worker=1'],
  ['a name with an empty runtime', '?worker=/1'],
  ['a name with an empty worker', '?worker=rt/'],
  ['one good name and one bad', '?worker=rt/1&worker=1'],
  ['101 workers', `?${Array.from({ length: 101 }, (_, i) => `worker=rt/${i}`).join('&')}`],
] as const)
  it(`refuses a selection of ${what} with 400`, async () => {
    expectProblem(await ask(`/api/events${query}`, { headers: admin }), 'selection_invalid')
  })

it('takes a selection of 100 names of which one is left, and calls the others not found', async () => {
  const url = `${flow.shoji.url}/api/events?${Array.from({ length: 100 }, (_, i) => `worker=rt/${i + 2}`).join('&')}`
  using stream = await flow.open({ url })
  await stream.untilLive()
  expect(stream.state.views).toHaveLength(100)
  expect(stream.state.views.filter(view => 'state' in view && view.state === 'not_found')).toHaveLength(99)
})

it('refuses a history that is no number within its bounds with 400', async () => {
  for (const history of ['-1', '1001', '1e2', 'many', '0x10', '1.5', '99999999999999999999'])
    expectProblem(await ask(`${EVENTS}?history=${history}`, { headers: admin }), 'bad_request')
})

// ── who asks ────────────────────────────────────────────────────────────────────────────────────────────

for (const [what, headers] of [
  ['no credentials', {}],
  ['a wrong token', { authorization: 'Bearer shj_wrong' }],
  ['an empty token', { authorization: 'Bearer ' }],
  ['another scheme', { authorization: `Basic ${TOKENS.admin}` }],
  ['a token and more', { authorization: `Bearer ${TOKENS.admin} ${TOKENS.guest}` }],
  ['a token of nine KiB', { authorization: `Bearer ${'x'.repeat(9 * 1024)}` }],
  ['an unknown session', { cookie: 'shoji=none; __Host-shoji=none' }],
] as const)
  it(`answers ${what} with 401 before anything of the request is looked at`, async () => {
    for (const path of [EVENTS, '/api/runtimes', '/api/runtimes/rt/workers/99/events', '/api/events'])
      expectProblem(await ask(path, { headers }), 'unauthenticated')
    expectProblem(await ask(COMMANDS, { method: 'POST', headers, body: '{' }), 'unauthenticated')
  })

it('answers a header section beyond its bound without serving the request', async () => {
  const { status } = await ask(EVENTS, { headers: { ...admin, 'x-large': 'x'.repeat(20_000) } })
  expect(status).toBe(431)
})

// ── commands ────────────────────────────────────────────────────────────────────────────────────────────

const json = { 'content-type': 'application/json' }

it('answers commands that are not JSON, not of a known form, or not JSON by type, and forwards none of them', async () => {
  const before = flow.runtime.traffic.requests.filter(r => r.method === 'POST').length
  const post = (body: string, headers: Record<string, string> = json): Promise<Answer> =>
    ask(COMMANDS, { method: 'POST', headers: { ...admin, ...headers }, body })
  for (const body of ['', '{', '{"command":"input.user","content":"x"', '\u0000', "{'command':1}"])
    expectProblem(await post(body), 'bad_request')
  for (const body of [
    'null',
    '[]',
    '7',
    '"input.user"',
    '{}',
    '{"command":"input.user"}',
    '{"command":"input.user","content":""}',
    '{"command":"input.user","content":7}',
    '{"command":"input.user","content":"x","more":1}',
    '{"command":"stop"}',
    '{"command":"format.disk","content":"x"}',
    '{"__proto__":{"command":"input.user"},"content":"x"}',
    '['.repeat(1_000) + ']'.repeat(1_000),
  ])
    expectProblem(await post(body), 'command_unknown')
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'application/jsonp',
  ])
    expectProblem(
      await post('{"command":"input.user","content":"x"}', { 'content-type': type }),
      'unsupported_media_type',
    )
  expectProblem(await post('{"command":"input.user","content":"x"}', {}), 'unsupported_media_type')
  expect(flow.runtime.traffic.requests.filter(r => r.method === 'POST')).toHaveLength(before)
})

it('refuses a body beyond its bound, told or in pieces', async () => {
  const body = JSON.stringify({ command: 'input.user', content: 'x'.repeat(8_000) })
  const headers = { ...admin, ...json }
  expectProblem(await ask(COMMANDS, { method: 'POST', headers, body }), 'payload_too_large')
  expectProblem(await ask(COMMANDS, { method: 'POST', headers, body, chunked: true }), 'payload_too_large')
})

it('takes a body in pieces, and requests without a body or a length', async () => {
  const headers = { ...admin, ...json }
  const body = '{"command":"format.disk"}'
  expectProblem(await ask(COMMANDS, { method: 'POST', headers, body, chunked: true }), 'command_unknown')
  expectProblem(await ask(COMMANDS, { method: 'POST', headers, body: '', chunked: true }), 'bad_request')
  expectProblem(await ask(COMMANDS, { method: 'POST', headers }), 'bad_request')
  const session = await ask('/api/session', {
    method: 'POST',
    headers: json,
    body: JSON.stringify({ token: TOKENS.guest }),
    chunked: true,
  })
  expect(session.status).toBe(201)
  expect((await ask('/api/session', { method: 'DELETE' })).status).toBe(204)
  expectProblem(
    await ask('/api/session', { method: 'POST', headers: json, body: '{"token":7}' }),
    'bad_request',
  )
  expectProblem(await ask('/api/session', { method: 'POST', headers: json, body: '{' }), 'bad_request')
  for (const method of ['OPTIONS', 'DELETE', 'PROPFIND'])
    expectProblem(await ask('/api/runtimes', { method }), 'unauthenticated')
})

it('refuses a command that is not granted before its form is told', async () => {
  const body = '{"command":"input.user","content":"x"}'
  expectProblem(
    await ask(COMMANDS, { method: 'POST', headers: { ...guest, ...json }, body }),
    'command_denied',
  )
})

// ── paths and methods ───────────────────────────────────────────────────────────────────────────────────

it('answers unknown paths with a problem', async () => {
  for (const path of [
    '/nope',
    '/api',
    '/api/',
    '/api/nope',
    '/api//events',
    '/api/runtimes/rt/workers/1/nope',
    '/api/admin',
  ])
    expectProblem(await ask(path, { headers: admin }), 'not_found')
})

it('answers methods that a path does not know with a problem, and opens no stream for them', async () => {
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    const answer = await ask(EVENTS, { method, headers: { ...admin, ...json }, body: '{}' })
    expect([404, 405]).toContain(answer.status)
    expect(answer.headers['content-type']).toBe('application/problem+json')
  }
  const answer = await ask(COMMANDS, { headers: admin })
  expect([404, 405]).toContain(answer.status)
  expect(answer.headers['content-type']).toBe('application/problem+json')
})

it('ends a HEAD request for a stream at once', async () => {
  const { status, body } = await ask(EVENTS, { method: 'HEAD', headers: admin })
  expect([status, body]).toEqual([200, ''])
  const refused = await ask('/api/runtimes/rt/workers/99/events', { method: 'HEAD', headers: admin })
  expect(refused.status).toBe(404)
})

it('survives bytes that are no HTTP', async () => {
  for (const bytes of [
    'GARBAGE\r\n\r\n',
    '\u0016\u0003\u0001\u0002\u0000',
    'GET / HTTP/9.9\r\n\r\n',
    '\r\n\r\n\r\n',
  ]) {
    const socket = connect(flow.shoji.service.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.end(bytes)
    await new Promise(resolve => socket.once('close', resolve).resume())
  }
  expect((await ask('/healthz')).status).toBe(200)
})

// ── where from ──────────────────────────────────────────────────────────────────────────────────────────

it('answers a foreign host with 421, but for the health of the server', async () => {
  const { port } = flow.shoji.service
  for (const host of [
    'evil.example',
    `evil.example:${port}`,
    'localhost.evil.example',
    '10.0.0.1',
    '127.0.0.1.evil.example',
  ])
    expectProblem(await ask('/api/runtimes', { headers: { ...admin, host } }), 'host_unknown')
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, 'localhost', '[::1]'])
    expect((await ask('/api/runtimes', { headers: { ...admin, host } })).status).toBe(200)
  expect((await ask('/api/runtimes', { headers: { ...admin, host: 'a b' } })).status).toBe(400)
  expect((await ask('/healthz', { headers: { host: 'evil.example' } })).status).toBe(200)
  expect((await ask('/readyz', { headers: { host: '10.0.0.1' } })).status).toBe(200)
})

it('answers a foreign origin with 403 before it asks for credentials', async () => {
  const { port } = flow.shoji.service
  const foreign: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: `http://127.0.0.1:${port + 1}` },
    { origin: `https://127.0.0.1:${port}` },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
  ]
  for (const headers of foreign)
    for (const who of [admin, {}]) {
      expectProblem(await ask(EVENTS, { headers: { ...who, ...headers } }), 'origin_forbidden')
      const post = { method: 'POST', headers: { ...who, ...headers, ...json }, body: '{}' }
      if (!('sec-fetch-site' in headers)) expectProblem(await ask(COMMANDS, post), 'origin_forbidden')
      expectProblem(await ask('/api/session', post), 'origin_forbidden')
    }
  const own = await ask('/api/runtimes', { headers: { ...admin, origin: `http://127.0.0.1:${port}` } })
  expect(own.status).toBe(200)
})

// ── hidden is missing ───────────────────────────────────────────────────────────────────────────────────

it('answers for a hidden worker byte for byte as for one that does not exist', async () => {
  const same = async (path: (worker: string) => string, asked: Asked = {}): Promise<void> => {
    const [hidden, missing] = await Promise.all(
      ['2', '9'].map(worker => ask(path(worker), { ...asked, headers: { ...guest, ...asked.headers } })),
    )
    const bytes = ({ status, headers, body }: Answer, worker: string): string =>
      JSON.stringify({ status, headers: { ...headers, date: '' }, body }).replaceAll(
        `/workers/${worker}`,
        '/workers/N',
      )
    expect(bytes(hidden!, '2')).toBe(bytes(missing!, '9'))
    expect(hidden!.status).toBe(404)
  }
  const of = (rest: string) => (worker: string) => `/api/runtimes/rt/workers/${worker}${rest}`
  await same(of(''))
  await same(of('/events'))
  await same(of('/events?cursor=nonsense'))
  await same(of('/history'))
  await same(of('/history?before=nonsense'))
  await same(of('/items/AAAAAAAAAAAAAAAAAAAAAA/rest?at=/text'))
  await same(worker => `/api/events?worker=rt/${worker}`)
  const body = '{"command":"input.user","content":"x"}'
  await same(of('/commands'), { method: 'POST', headers: json, body })
  await same(of('/commands'), { method: 'POST', headers: json, body: '{' })
  await same(of('/commands'), { method: 'POST', headers: { 'content-type': 'text/plain' }, body })
})

it('tells of a hidden worker in a selection what it tells of one that does not exist', async () => {
  const outline = async (worker: string): Promise<string> => {
    const url = `${flow.shoji.url}/api/events?worker=rt/1&worker=rt/${worker}`
    using stream = await flow.open({ url, user: 'guest' })
    await stream.untilLive()
    return JSON.stringify(stream.frames.map(({ event, data }) => ({ event, data }))).replaceAll(
      `"worker":"${worker}"`,
      '"worker":"N"',
    )
  }
  expect(await outline('2')).toBe(await outline('9'))
  const list = await ask('/api/runtimes/rt/workers', { headers: guest })
  expect(JSON.parse(list.body).items.map((w: { worker: string }) => w.worker)).toEqual(['1'])
})

// ── the other side ──────────────────────────────────────────────────────────────────────────────────────

it('says of a wrong token for a Runtime what is wrong, to viewers too, and stays ready', async () => {
  await using runtime = await startEmbeddedRuntime({ generation: 'events-ws', token: 'right' })
  runtime.addWorker()
  await using shoji = await startShoji({
    runtimes: [{ id: 'rt', url: runtime.url, token: 'wrong' }],
    overrides: QUICK,
  })
  await eventually(async () => {
    const answer = await fetch(`${shoji.url}/api/runtimes`, { headers: admin })
    const { items } = (await answer.json()) as { items: { upstream: string; code?: string }[] }
    return items[0]?.upstream === 'degraded' && items[0].code === 'upstream_unauthorized'
  }, 'the code of the failure')
  expect((await fetch(`${shoji.url}/readyz`)).status).toBe(200)
  using stream = await TestStream.open(`${shoji.url}/api/runtimes/rt/events`, { token: TOKENS.admin })
  await stream.untilFrame('status')
  expect(stream.frames.find(f => f.event === 'status')?.data).toMatchObject({
    runtime: 'rt',
    upstream: 'degraded',
    code: 'upstream_unauthorized',
  })
  expect(JSON.stringify(stream.frames)).not.toContain('wrong')
  runtime.token = 'wrong'
  await stream.until(s => s.frames.some(f => f.event === 'snapshot'), 'the worker, once the token is right')
})

it('goes on with what is connected when a Runtime changes its token, and tells its viewers', async () => {
  await using other = await startFlow()
  using stream = await other.open()
  await stream.untilLive()
  misbehave(other.runtime).changeToken('another')
  await stream.until(
    s => s.frames.some(f => f.event === 'status' && f.data.code === 'upstream_unauthorized'),
    'the status',
  )
  tell(other.worker, 'still heard')
  await stream.until(saw(other.worker, 'still heard'), 'what comes on the open socket')
  expect((await fetch(`${other.shoji.url}/readyz`)).status).toBe(200)
})

const deep = (levels: number): string =>
  `${'{"event":"internal_worker","data":{"worker":{"session_id":"s"},"event":'.repeat(levels)}{"event":"text_delta","data":{"text":"x"}}${'}}'.repeat(levels)}`

for (const [what, poison] of [
  [
    'a long text under a key that is half a pair',
    `{"event":"novel","data":{"\\ud800":"${'x'.repeat(70_000)}"}}`,
  ],
  ['internal workers 5,000 deep', deep(5_000)],
  ['arrays 20,000 deep', `{"event":"novel","data":{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}}`],
  ['data that is no object', '{"event":"text_delta","data":[1,2]}'],
  ['fields of other kinds', '{"event":"tool_call_start","data":{"id":{"a":1},"name":[7]}}'],
  ['keys of the prototype', '{"event":"novel","data":{"__proto__":{"a":1},"constructor":{"prototype":1}}}'],
  [
    'numbers beyond all bounds',
    '{"event":"usage","data":{"input_tokens":123456789012345678901234567890,"output_tokens":-1e999}}',
  ],
] as const)
  it(`shows an event with ${what} or withholds it, and everything around it, on every road`, async () => {
    await using other = await startFlow()
    using live = await other.open()
    await live.untilLive()
    const start = live.state
    tell(other.worker, 'before')
    const { dialect } = other.runtime
    const { lastPosition } = other.worker
    other.worker.sendRaw(dialect.eventFrame(other.worker.idJson, lastPosition + 1_000_000, poison))
    tell(other.worker, 'after')
    await live.until(saw(other.worker, 'after'), 'live')
    using replay = await other.open({ lastEventId: start.position! }, start)
    await replay.untilLive()
    expect(saw(other.worker, 'after')(replay)).toBe(true)
    using fresh = await other.open()
    await fresh.untilLive()
    expect(saw(other.worker, 'after')(fresh)).toBe(true)
    expect(saw(other.worker, 'before')(fresh)).toBe(true)
    const { items } = (await (await fetch(`${other.at()}/history`, { headers: bearer('admin') })).json()) as {
      items: unknown[]
    }
    expect(items.length).toBeGreaterThanOrEqual(2)
  })

it('goes on after frames that cannot be taken', async () => {
  await using other = await startFlow()
  const runtime = misbehave(other.runtime)
  using live = await other.open()
  await live.untilLive()
  runtime.malformed(other.worker.id)
  runtime.foreignFrame(other.worker.id, '77')
  runtime.binary(other.worker.id)
  tell(other.worker, 'after')
  await live.until(saw(other.worker, 'after'), 'what follows')
  expect(live.frames.some(f => f.event === 'gap')).toBe(true)
  expect(JSON.stringify(live.frames)).not.toContain('of another worker')
})
