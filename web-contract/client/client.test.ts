import { EventSource } from 'eventsource'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { workerKey } from '../reduce.ts'
import type { ClientState } from '../state.ts'
import { observedClient } from './_support/observed-client.ts'
import {
  beat,
  bye,
  caughtUp,
  envelope,
  fresh,
  hello,
  session,
  snapshot,
  sse,
  text,
} from './_support/script.ts'
import { type Connection, scriptedStream } from './_support/scripted-stream.ts'

const textOf = (state: ClientState): string | undefined => {
  const item = state.workers[workerKey('rt', 'w')]?.state.items[0]
  return item?.kind === 'text' ? item.text : undefined
}
const workers = (state: ClientState): string => JSON.stringify(state.workers)

describe('resuming', () => {
  it('opens without an id and comes back with the last one it saw', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url, history: 20 })
    const first = await server.next()
    expect(first.request.url).toBe('/api/runtimes/rt/workers/w/events?history=20')
    expect(first.lastEventId).toBeUndefined()
    first.send(fresh('i1'), sse(text('i2', 'Hel')))
    await client.until(c => c.state.position === 'i2')
    first.cut()
    const second = await server.next()
    expect(second.lastEventId).toBe('i2')
    second.send(sse(hello('resumed')), sse(text('i3', 'lo')), sse(caughtUp('i4')))
    await client.until(c => c.state.position === 'i4')
    expect(textOf(client.state)).toBe('Hello')
  })

  it('keeps the last id over frames that have none', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    const status = sse({ event: 'status', data: { runtime: 'rt', upstream: 'live', since: 1 } })
    const command = sse({ event: 'command', data: { id: 'r', command: 'input.user', state: 'done' } })
    const first = await server.next()
    first.send(fresh('i1'), status, sse(text('i2', 'a')), command, status)
    await client.until(c => Object.keys(c.state.commands).length > 0)
    first.end()
    expect((await server.next()).lastEventId).toBe('i2')
  })

  it('resumes when the server ends the answer cleanly in the middle of a run', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    const first = await server.next()
    first.send(fresh('i1'), sse(envelope('i2', 'status', { status: 'running' })))
    first.end()
    const second = await server.next()
    expect(second.lastEventId).toBe('i2')
    expect(client.state.workers[workerKey('rt', 'w')]?.state.status).toBe('running')
    second.send(
      sse(hello('resumed')),
      sse(envelope('i3', 'run_end', { result: 'finished' })),
      sse(caughtUp('i4')),
    )
    await client.until(c => c.connection.state === 'live')
  })

  it('opens an EventSource with ?cursor=, whose own last id wins from then on', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url, transport: 'eventsource', EventSource })
    const first = await server.next()
    first.send('retry: 1\n\n', fresh('i1'), sse(text('i5', 'a')))
    await client.until(c => c.state.position === 'i5')
    client.reconnect()
    const second = await server.next()
    expect(second.cursor).toBe('i5')
    expect(second.lastEventId).toBeUndefined()
    second.send('retry: 1\n\n', sse(hello('resumed')), sse(text('i9', 'b')))
    second.send(sse({ event: 'status', data: { runtime: 'rt', upstream: 'live', since: 1 } }))
    await client.until(c => c.state.position === 'i9' && 'rt' in c.state.upstreams)
    second.cut()
    const third = await server.next()
    expect(third.cursor).toBe('i5')
    expect(third.lastEventId).toBe('i9')
    third.send(sse(hello('resumed')), sse(text('i10', 'c')), sse(caughtUp('i11')))
    await client.until(c => c.connection.state === 'live')
    expect(textOf(client.state)).toBe('abc')
  })

  it('drops a connection on purpose, keeps what it has, and goes on where it stopped', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    const first = await server.next()
    first.send(fresh('i1'), sse(text('i2', 'a')))
    await client.until(c => c.state.position === 'i2')
    client.drop()
    await first.gone
    expect(client.connection).toMatchObject({ state: 'offline', dropped: true })
    expect(textOf(client.state)).toBe('a')
    client.resume()
    client.resume()
    expect((await server.next()).lastEventId).toBe('i2')
    expect(server.opened).toBe(2)
  })

  it('takes no frame of a chunk after a callback has dropped the connection in it', async () => {
    await using server = await scriptedStream()
    using client = observedClient({
      url: server.url,
      onFrame: frame => frame.id === 'i2' && client.drop(),
    })
    const first = await server.next()
    first.send(fresh('i1') + sse(text('i2', 'a')) + sse(text('i3', 'b')))
    await first.gone
    expect(client.state.position).toBe('i2')
    expect(textOf(client.state)).toBe('a')
  })

  it('starts afresh once a list has outgrown its limit, and shows the old one until the new one is whole', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url, maxItems: 0 })
    const first = await server.next()
    const many = Array.from({ length: 2_001 }, (_, i) =>
      sse(envelope(`e${i}`, 'user_message', { segments: [] }, { item: `m${i}`, begins: true })),
    )
    first.send(fresh('i1'), many.join(''))
    const second = await server.next()
    expect(second.lastEventId).toBeUndefined()
    expect(client.state.workers[workerKey('rt', 'w')]?.state.items).toHaveLength(2_001)
    second.send(fresh('i2'))
    await client.until(c => c.connection.state === 'live' && c.state.position === 'i2')
    expect(client.state.workers[workerKey('rt', 'w')]?.state.items).toEqual([])
  })
})

describe('a stream that is cut', () => {
  const on = { item: 'a', block: 'b' }
  const envelopes = [
    envelope('', 'thinking_delta', { text: 'é😀\u2028' }, { item: 't', begins: true, block: 'tb' }),
    envelope(
      '',
      'text_delta',
      { text: 'data: 1\r\n\r\n' },
      { ...on, begins: true, tails: [{ block: 'tb', text: '…' }] },
    ),
    envelope('', 'text_delta', { text: 'aa' }, on),
    envelope('', 'text_delta', { text: 'aa' }, on),
  ].map(({ id: _, ...rest }) => rest)
  const whole = Buffer.from(session(envelopes).stream(undefined))
  const uncut = async (): Promise<string> => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    ;(await server.next()).send(whole)
    await client.until(c => c.frames.some(f => f.event === 'beat'))
    return workers(client.state)
  }

  it('ends in the state of the uncut one, at every byte', async () => {
    const expected = await uncut()
    await using server = await scriptedStream()
    for (let index = 0; index <= whole.length; index++) {
      const { stream, isEnd } = session(envelopes)
      using client = observedClient({ url: server.url })
      const first = await server.next()
      const bytes = Buffer.from(stream(undefined)).subarray(0, index)
      if (index > 0) first.send(bytes)
      if (index % 2 === 0) first.cut()
      else first.end()
      const second = await server.next()
      second.send(stream(second.lastEventId))
      await client.until(c => c.connection.state === 'live' && isEnd(c.state.position))
      expect(workers(client.state), `cut at byte ${index}`).toBe(expected)
    }
  })

  it('ends in the state of the uncut one over any number of cuts and any chunking, and shows no half burst', async () => {
    const expected = await uncut()
    const partial = new Set<string>()
    await using server = await scriptedStream()
    for (let n = 0; n <= envelopes.length; n++) {
      const { stream, isEnd } = session(envelopes.slice(0, n))
      using client = observedClient({ url: server.url })
      ;(await server.next()).send(stream(undefined))
      await client.until(c => isEnd(c.state.position) && c.connection.state === 'live')
      partial.add(workers(client.state))
    }
    const anyCuts = fc.array(
      fc.tuple(fc.nat(whole.length), fc.array(fc.nat(whole.length), { maxLength: 4 })),
      {
        maxLength: 5,
      },
    )
    await fc.assert(
      fc.asyncProperty(anyCuts, async cuts => {
        const { stream, isEnd } = session(envelopes)
        const left = [...cuts]
        const chunked: typeof fetch = async (_, init) => {
          const id = new Headers(init?.headers).get('last-event-id') ?? undefined
          const bytes = Buffer.from(stream(id))
          const cut = left.shift()
          const sent = cut === undefined ? bytes : bytes.subarray(0, cut[0])
          const at = (cut?.[1] ?? []).map(i => i % (sent.length + 1)).sort((a, b) => a - b)
          const body = new ReadableStream<Uint8Array>({
            start(controller) {
              for (const [i, from] of [0, ...at].entries()) controller.enqueue(sent.subarray(from, at[i]))
              if (cut !== undefined) controller.close()
            },
          })
          return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
        }
        using client = observedClient({ url: 'http://unused.invalid', fetch: chunked })
        await client.until(c => left.length === 0 && c.connection.state === 'live' && isEnd(c.state.position))
        expect(workers(client.state)).toBe(expected)
        for (const shown of client.states) expect(partial).toContain(workers(shown))
      }),
      { numRuns: 60 },
    )
  })

  it('shows nothing of a burst before its last frame, and takes a half one back', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    const first = await server.next()
    first.send(fresh('i1'), sse(text('i2', 'old')))
    await client.until(c => textOf(c.state) === 'old')
    first.send(
      sse({ event: 'reset', data: { runtime: 'rt', worker: 'w', reason: 'rewound' } }),
      sse(snapshot()),
    )
    await client.until(c => c.frames.at(-1)?.event === 'snapshot')
    expect(client.connection.state).toBe('catching_up')
    expect(textOf(client.state)).toBe('old')
    first.cut()
    const second = await server.next()
    expect(second.lastEventId).toBe('i2')
    second.send(sse(hello('resumed')), sse(text('i3', 'er')), sse(caughtUp('i4')))
    await client.until(c => c.connection.state === 'live')
    expect(textOf(client.state)).toBe('older')
  })

  it('takes out of sight soon what a view that comes alone takes away', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    const first = await server.next()
    first.send(fresh('i1'), sse(text('i2', 'a')))
    await client.until(c => textOf(c.state) === 'a')
    first.send(sse({ event: 'view', data: { policy: 'q', views: [] } }))
    await client.until(c => c.states.at(-1)?.policy === 'q')
    expect(client.states.at(-1)?.workers).toEqual({})
  })

  it('tells onState of many frames in one chunk once', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    const first = await server.next()
    first.send(fresh('i1') + Array.from({ length: 500 }, (_, i) => sse(text(`t${i}`, 'x'))).join(''))
    await client.until(c => c.states.at(-1)?.position === 't499')
    expect(client.states.length).toBeLessThan(20)
    expect(textOf(client.states.at(-1)!)).toBe('x'.repeat(500))
  })
})

describe('text on the wire', () => {
  const strange = [
    '\r',
    '\n',
    '\r\n',
    '\r\n\r\n',
    '\0',
    '\u2028',
    '\u2029',
    'data: x\n\n',
    'id: evil\n',
    '\ufeff',
    '\ud83d',
    '\ude00',
  ]

  it.each(['fetch', 'eventsource'] as const)(
    'arrives by %s as it was sent, one frame a text',
    async transport => {
      await using server = await scriptedStream()
      using client = observedClient({ url: server.url, transport, EventSource })
      const first = await server.next()
      first.send(fresh('i1'), ...strange.map((value, i) => sse(text(`s${i}`, value))))
      await client.until(c => c.state.position === `s${strange.length - 1}`)
      expect(client.frames).toHaveLength(3 + strange.length)
      expect(textOf(client.state)).toBe(strange.join(''))
    },
  )

  it('asks for names that hold anything, and never throws for one', async () => {
    await using server = await scriptedStream()
    using client = observedClient({
      url: server.url,
      selection: {
        workers: [
          { runtime: 'a/b?c', worker: '\ud800&worker=x' },
          { runtime: 'r', worker: 'é' },
        ],
      },
    })
    const { request } = await server.next()
    expect(request.url).toBe('/api/events?worker=a%2Fb%3Fc/%EF%BF%BD%26worker%3Dx&worker=r/%C3%A9')
    expect(client.connection.state).toBe('catching_up')
  })
})

describe('a client', () => {
  it('leaves one connection of five connects and aborts within a second, and no listener', async () => {
    await using server = await scriptedStream()
    const connections: Connection[] = []
    const signals: AbortController[] = []
    for (let i = 0; i < 5; i++) {
      const controller = new AbortController()
      signals.push(controller)
      observedClient({ url: server.url, signal: controller.signal })
      const connection = await server.next()
      connection.send(fresh(`i${i}`))
      connections.push(connection)
      if (i < 4) controller.abort()
    }
    await Promise.all(connections.slice(0, 4).map(c => c.gone))
    expect(server.open).toBe(1)
    expect(server.opened).toBe(5)
    signals[4]?.abort()
    await connections[4]?.gone
    expect(server.open).toBe(0)
  })

  it('keeps no timer after it was closed, and says nothing more', async () => {
    await using server = await scriptedStream()
    const timers = new Set<unknown>()
    const clock = {
      now: Date.now,
      setTimeout(run: () => void, delayMs: number) {
        const timer = setTimeout(() => {
          timers.delete(timer)
          run()
        }, delayMs)
        timers.add(timer)
        return timer
      },
      clearTimeout(timer: unknown) {
        timers.delete(timer)
        clearTimeout(timer as NodeJS.Timeout)
      },
    }
    const client = observedClient({ url: server.url, clock })
    const first = await server.next()
    first.send(fresh('i1'), sse(beat('i2')))
    await client.until(c => c.state.position === 'i2')
    client.close()
    const said = [client.states.length, client.frames.length]
    await first.gone
    client.reconnect()
    client.resume()
    expect(client.connection).toEqual({ state: 'closed' })
    expect(timers.size).toBe(0)
    expect(server.opened).toBe(1)
    expect([client.states.length, client.frames.length]).toEqual(said)
  })

  it('does not connect when its signal has ended before', () => {
    const client = observedClient({ url: 'http://127.0.0.1:1', signal: AbortSignal.abort() })
    expect(client.connection).toEqual({ state: 'closed' })
  })

  it('outlives a callback that throws', async () => {
    await using server = await scriptedStream()
    const thrown: unknown[] = []
    const listeners = process.listeners('uncaughtException')
    process.removeAllListeners('uncaughtException')
    process.on('uncaughtException', error => thrown.push(error))
    try {
      using client = observedClient({
        url: server.url,
        onFrame: frame => {
          if (frame.event === 'hello') throw new Error('mine')
        },
      })
      const first = await server.next()
      first.send(fresh('i1'))
      await client.until(c => c.connection.state === 'live')
      expect(thrown).toMatchObject([{ message: 'mine' }])
    } finally {
      process.removeAllListeners('uncaughtException')
      for (const listener of listeners) process.on('uncaughtException', listener)
    }
  })

  it('goes where the server sends it: bye, then back after the wait it named', async () => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url })
    const first = await server.next()
    first.send(fresh('i1'), sse(bye('rotated', 5)))
    first.end()
    const second = await server.next()
    expect(second.lastEventId).toBe('i1')
    expect(client.state.bye).toEqual({ reason: 'rotated', retryMs: 5 })
    second.send(sse(hello('resumed')), sse(caughtUp('i2')))
    await client.until(c => c.connection.state === 'live')
    expect(client.state).not.toHaveProperty('bye')
  })
})
