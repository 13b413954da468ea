import { EventSource } from 'eventsource'
import { describe, expect, it } from 'vitest'
import { observedClient } from './_support/observed-client.ts'
import { beat, bye, caughtUp, fresh, hello, snapshot, sse, text } from './_support/script.ts'
import { scriptedStream } from './_support/scripted-stream.ts'
import { virtualClock } from './_support/virtual-clock.ts'
import { backoffMs } from './backoff.ts'
import { createShojiClient } from './client.ts'

const problem = (status: number, code: string): [number, Record<string, string>, string] => [
  status,
  { 'content-type': 'application/problem+json' },
  JSON.stringify({ type: 'about:blank', title: code, status, code, detail: 'no', instance: '/x' }),
]

describe('connection states', () => {
  it('are catching_up, live, stale with the time of the last byte, and live again', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    expect(client.connection).toEqual({ state: 'catching_up' })
    const first = await server.next()
    const before = Date.now()
    first.send(fresh('i1'))
    await client.until(c => c.connection.state === 'live')
    first.cut()
    await client.until(c => c.connection.state === 'stale')
    const { since } = client.connections.at(-1) as { since: number }
    expect(since).toBeGreaterThanOrEqual(before)
    expect(since).toBeLessThanOrEqual(Date.now())
    const second = await server.next()
    second.send(sse(hello('resumed')))
    await client.until(c => c.connection.state === 'catching_up')
    second.send(sse(caughtUp('i2')))
    await client.until(c => c.connection.state === 'live')
    expect(client.connections.map(c => c.state)).toEqual(['live', 'stale', 'catching_up', 'live'])
  })

  it('are never terminal while the server is away, and recover when it is back', async () => {
    const server = await scriptedStream()
    const port = Number(new URL(server.url).port)
    using client = observedClient({ url: server.url })
    ;(await server.next()).send(fresh('i1'), sse(text('i2', 'a')))
    await client.until(c => c.state.position === 'i2')
    await server[Symbol.asyncDispose]()
    await client.until(c => c.connection.state === 'offline')
    await using back = await scriptedStream(port)
    const second = await back.next()
    expect(second.lastEventId).toBe('i2')
    second.send(sse(hello('resumed')), sse(caughtUp('i3')))
    await client.until(c => c.connection.state === 'live')
    expect(client.connections.map(c => c.state)).not.toContain('denied')
  })

  it('are offline since ever when nobody answered yet', async () => {
    const gone = await scriptedStream()
    await gone[Symbol.asyncDispose]()
    using client = observedClient({ url: gone.url })
    await client.until(c => c.connection.state === 'offline')
    expect(client.connection).toEqual({ state: 'offline', since: null })
  })

  it.each([
    [401, 'credentials_expired', 'signed_out'],
    [403, 'forbidden', 'denied'],
    [404, 'worker_not_found', 'denied'],
    [400, 'selection_invalid', 'denied'],
  ] as const)('end with %i: no attempt follows until somebody asks for one', async (status, code, state) => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    ;(await server.next()).answer(...problem(status, code))
    await client.until(c => c.connection.state === state)
    expect(client.connection).toMatchObject({ code })
    expect(server.opened).toBe(1)
    client.reconnect()
    ;(await server.next()).send(fresh('i1'))
    await client.until(c => c.connection.state === 'live')
    expect(server.opened).toBe(2)
  })

  it.each([401, 404])('end an EventSource with %i too', async status => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url, transport: 'eventsource', EventSource })
    ;(await server.next()).answer(...problem(status, 'not_found'))
    ;(await server.next()).answer(...problem(status, 'not_found'))
    await client.until(c => c.connection.state === (status === 401 ? 'signed_out' : 'denied'))
    expect(server.opened).toBe(2)
  })

  it.each([
    ['an overloaded server', 503, 'application/problem+json'],
    ['too many requests', 429, 'application/problem+json'],
    ['a page of somebody else', 200, 'text/html'],
  ])('stay stale over %s', async (_, status, type) => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    ;(await server.next()).answer(status, { 'content-type': type }, '<html>')
    ;(await server.next()).answer(status, { 'content-type': type }, '{}')
    ;(await server.next()).send(fresh('i1'))
    await client.until(c => c.connection.state === 'live')
    expect(client.connections.map(c => c.state)).toContain('stale')
  })

  it('end where the server speaks another protocol version', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    ;(await server.next()).send('event: hello\ndata: {"protocol":2}\n\n')
    await client.until(c => c.connection.state === 'denied')
    expect(server.opened).toBe(1)
  })

  it('give up a connection whose frames cannot be read, and resume', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    const first = await server.next()
    first.send(fresh('i1'), 'event: envelope\nid: i2\ndata: {"broken\n\n')
    await first.gone
    expect((await server.next()).lastEventId).toBe('i1')
    expect(client.state.position).toBe('i1')
  })
})

describe('the watchdog', () => {
  it.each(['fetch', 'eventsource'] as const)(
    'notices a silent connection by %s and resumes',
    async transport => {
      await using server = await scriptedStream()
      using client = observedClient({ url: server.url, transport, EventSource })
      const first = await server.next()
      first.send([hello('fresh', 30), snapshot(), caughtUp('i1')].map(sse).join(''), sse(beat('i2')))
      await first.gone
      const second = await server.next()
      expect(transport === 'fetch' ? second.lastEventId : second.cursor).toBe('i2')
      expect(client.connection.state).toBe('stale')
    },
  )

  it('is content with bytes that are no frame', async () => {
    const clock = virtualClock()
    const bodies: ReadableStreamDefaultController<Uint8Array>[] = []
    const answer: typeof fetch = async (_, init) => {
      const stream = new ReadableStream<Uint8Array>({
        start(controller) {
          bodies.push(controller)
          init?.signal?.addEventListener('abort', () => controller.error(new Error('aborted')))
        },
      })
      return new Response(stream, { headers: { 'content-type': 'text/event-stream' } })
    }
    using client = observedClient({ url: '', fetch: answer, clock })
    const sent = async (text: string): Promise<void> => {
      bodies[0]?.enqueue(new TextEncoder().encode(text))
      await new Promise(resolve => setImmediate(resolve))
    }
    await new Promise(resolve => setImmediate(resolve))
    await sent([hello('fresh', 1_000), snapshot(), caughtUp('i1')].map(sse).join(''))
    for (let i = 0; i < 20; i++) {
      await sent(':\n')
      clock.advance(2_700)
    }
    expect(bodies).toHaveLength(1)
    clock.advance(300)
    await client.until(c => c.connection.state === 'stale')
  })
})

describe('waiting', () => {
  it('is jittered in full, doubles from half a second to thirty, and never ends', () => {
    expect([0, 1, 2, 5, 6, 7, 5_000].map(n => backoffMs(n, () => 1))).toEqual([
      500, 1_000, 2_000, 16_000, 30_000, 30_000, 30_000,
    ])
    expect(backoffMs(9, () => 0)).toBe(0)
    expect(backoffMs(1, () => 0.5)).toBe(500)
  })

  it('is never shorter than the server asked, nor longer than five minutes', () => {
    expect(backoffMs(0, () => 0, 4_000)).toBe(4_000)
    expect(backoffMs(6, () => 1, 4_000)).toBe(30_000)
    expect(backoffMs(0, () => 0, 86_400_000)).toBe(300_000)
  })

  /** A clock that records the waits of a client and ends them at once. */
  const waits = () => {
    const asked: number[] = []
    return {
      asked,
      clock: {
        now: Date.now,
        setTimeout: (run: () => void, delayMs: number): unknown => {
          asked.push(delayMs)
          return setTimeout(run, delayMs === 3_750 ? delayMs : 0)
        },
        clearTimeout: (timer: unknown): void => clearTimeout(timer as NodeJS.Timeout),
      },
    }
  }

  it('honours the wait of a bye, of retry: and of retry-after', async () => {
    await using server = await scriptedStream()
    const { asked, clock } = waits()
    using client = observedClient({ url: server.url, clock })
    const first = await server.next()
    first.send(fresh('i1'), sse(bye('overloaded', 7_001)))
    first.end()
    const second = await server.next()
    second.send('retry: 7002\n\n')
    second.end()
    ;(await server.next()).answer(503, { 'retry-after': '9' }, '')
    ;(await server.next()).send(sse(hello('resumed')), sse(caughtUp('i2')))
    await client.until(c => c.connection.state === 'live')
    expect(asked.filter(ms => ms > 5_000)).toEqual([7_001, 7_002, 9_000])
  })

  it('grows while a server takes connections and ends them', async () => {
    await using server = await scriptedStream()
    const { asked, clock } = waits()
    using client = observedClient({ url: server.url, clock, random: () => 1 })
    for (let i = 0; i < 4; i++) {
      const connection = await server.next()
      connection.send(i === 0 ? fresh('i1') : sse(hello('resumed')) + sse(caughtUp(`c${i}`)))
      connection.end()
    }
    await server.next()
    expect(client.state.position).toBe('c3')
    expect(asked.filter(ms => ms >= 500 && ms !== 3_750)).toEqual([500, 1_000, 2_000, 4_000])
  })
})

describe('credentials', () => {
  it('are asked for anew before every connection', async () => {
    await using server = await scriptedStream()
    let n = 0
    using client = observedClient({ url: server.url, token: async () => `t${++n}` })
    const first = await server.next()
    expect(first.request.headers.authorization).toBe('Bearer t1')
    first.cut()
    expect((await server.next()).request.headers.authorization).toBe('Bearer t2')
    expect(client.state.position).toBeNull()
  })

  it('are refused for an EventSource, which could not send them', () => {
    const options = { url: '', selection: { runtime: 'r' }, onState: () => {}, token: 't', EventSource }
    expect(() => createShojiClient({ ...options, transport: 'eventsource' })).toThrow(TypeError)
  })
})
