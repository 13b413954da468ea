import { describe, expect, it } from 'vitest'
import { observedClient } from './_support/observed-client.ts'
import { fresh } from './_support/script.ts'
import { type Connection, type ScriptedStream, scriptedStream } from './_support/scripted-stream.ts'
import { ShojiProblem } from './requests.ts'

const worker = { runtime: 'rt', worker: 'w/1' }
const json = { 'content-type': 'application/json' }

/** The request that comes after the stream of a client has opened. */
async function opened(server: ScriptedStream): Promise<void> {
  ;(await server.next()).send(fresh('i1'))
}

async function bodyOf({ request }: Connection): Promise<unknown> {
  let text = ''
  for await (const chunk of request) text += chunk
  return JSON.parse(text)
}

const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => expect.unreachable('it was to reject'),
    (error: unknown) => error,
  )

describe('a command', () => {
  it('is posted as JSON with its key and the token, and gives the receipt', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url, token: 'secret' })
    await opened(server)
    const receipt = { id: 'r', command: 'input.user', state: 'done', cursor: 'c' }
    const sent = client.sendCommand(worker, { command: 'input.user', content: 'hi' }, { idempotencyKey: 'k' })
    const post = await server.next()
    expect(post.request.method).toBe('POST')
    expect(post.request.url).toBe('/api/runtimes/rt/workers/w%2F1/commands')
    expect(post.request.headers).toMatchObject({
      'content-type': 'application/json',
      'idempotency-key': 'k',
      authorization: 'Bearer secret',
    })
    expect(await bodyOf(post)).toEqual({ command: 'input.user', content: 'hi' })
    post.answer(200, json, JSON.stringify(receipt))
    expect(await sent).toEqual(receipt)
  })

  it('that is refused rejects with the code of its problem document', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    await opened(server)
    const sent = rejection(client.sendCommand(worker, { command: 'input.user', content: 'hi' }))
    const document = {
      type: 'about:blank',
      title: 't',
      status: 403,
      code: 'command_denied',
      detail: 'no',
      instance: '/r',
    }
    ;(await server.next()).answer(
      403,
      { 'content-type': 'application/problem+json' },
      JSON.stringify(document),
    )
    const problem = await sent
    expect(problem).toBeInstanceOf(ShojiProblem)
    expect(problem).toMatchObject({ code: 'command_denied', status: 403, message: 'no', instance: '/r' })
    expect(client.connection.state).toBe('live')
  })
})

describe('a history page', () => {
  it('is asked for by cursor and limit', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    await opened(server)
    const page = { items: [{ id: 'a', kind: 'text', time: 1, text: 'x' }], earlier: 'c0' }
    const asked = client.history(worker, { before: 'c1', limit: 5 })
    const get = await server.next()
    expect(get.request.url).toBe('/api/runtimes/rt/workers/w%2F1/history?before=c1&limit=5')
    get.answer(200, json, JSON.stringify(page))
    expect(await asked).toEqual(page)
  })

  it.each([
    ['an answer of a proxy', 502, 'text/html', '<html>', 'unreadable'],
    ['no JSON', 200, 'application/json', '{', 'unreadable'],
    ['a cursor of another view', 409, 'application/problem+json', '{"code":"view_changed"}', 'view_changed'],
  ])('rejects with a typed problem over %s', async (_, status, type, body, code) => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    await opened(server)
    const asked = rejection(client.history(worker))
    ;(await server.next()).answer(status, { 'content-type': type }, body)
    expect(await asked).toMatchObject({ name: 'ShojiProblem', code })
  })

  it('rejects when its signal or the client ends, and when nobody answers', async () => {
    await using server = await scriptedStream()
    const client = observedClient({ url: server.url })
    await opened(server)
    const controller = new AbortController()
    const first = rejection(client.history(worker, { signal: controller.signal }))
    const pending = await server.next()
    controller.abort()
    expect(await first).toMatchObject({ code: 'unreachable' })
    await pending.gone
    const second = rejection(client.history(worker))
    await server.next()
    client.close()
    expect(await second).toMatchObject({ code: 'unreachable' })
    expect(await rejection(client.history(worker))).toMatchObject({ code: 'unreachable', status: 0 })
  })
})
