import { describe, expect, it } from 'vitest'
import { observedClient } from './_support/observed-client.ts'
import { beat, caughtUp, envelope, fresh, hello, snapshot, sse, text } from './_support/script.ts'
import { type Connection, scriptedStream } from './_support/scripted-stream.ts'
import { sharedBrowser } from './_support/shared.ts'
import type { ShojiClientOptions } from './types.ts'

const items = (client: { state: ReturnType<typeof observedClient>['state'] }) =>
  client.state.workers['rt/w']?.state.items

const open = (
  server: { url: string },
  browser: ReturnType<typeof sharedBrowser>,
  options: Partial<ShojiClientOptions> & { viewer?: string } = {},
) => {
  const { viewer = 'ana', ...rest } = options
  return observedClient({ url: server.url, share: { connect: browser.connect, viewer }, ...rest })
}

describe('tabs that share a stream', () => {
  it('open one connection between them and end with the same state', async () => {
    await using server = await scriptedStream()
    using browser = sharedBrowser()
    using first = open(server, browser)
    const stream = await server.next()
    stream.send(fresh('i1'), sse(text('i2', 'a')))
    await first.until(c => c.state.position === 'i2')
    using second = open(server, browser)
    await second.until(c => c.connection.state === 'live')
    expect(items(second)).toEqual(items(first))
    stream.send(sse(text('i3', 'b')))
    await Promise.all([first, second].map(tab => tab.until(c => c.state.position === 'i3')))
    expect(items(second)).toEqual(items(first))
    expect(items(first)).toMatchObject([{ kind: 'text', text: 'ab' }])
    expect(server.opened).toBe(1)
  })

  it('do not share with another viewer, token or selection', async () => {
    await using server = await scriptedStream()
    using browser = sharedBrowser()
    using _a = open(server, browser)
    using _b = open(server, browser, { viewer: 'ben' })
    using _c = open(server, browser, { token: 'shj_1' })
    using _d = open(server, browser, { token: 'shj_2' })
    using _e = open(server, browser, { selection: { runtime: 'rt' } })
    using _f = open(server, browser, { token: () => 'shj_3' })
    for (let i = 0; i < 6; i++) await server.next()
    expect(server.open).toBe(6)
  })

  it('that come in the middle of a burst are given what is whole, and then the burst', async () => {
    await using server = await scriptedStream()
    using browser = sharedBrowser()
    using first = open(server, browser)
    const stream = await server.next()
    stream.send(fresh('i1'), sse(text('i2', 'old')))
    await first.until(c => c.state.position === 'i2')
    const reset = { event: 'reset', data: { runtime: 'rt', worker: 'w', reason: 'rewound' } } as const
    stream.send(sse(reset), sse(snapshot()))
    await first.until(c => c.frames.at(-1)?.event === 'snapshot')
    using second = open(server, browser)
    await second.until(c => c.frames.filter(f => f.event === 'snapshot').length === 2)
    expect(items(second)).toMatchObject([{ text: 'old' }])
    stream.send(sse(caughtUp('i3')))
    await second.until(c => c.connection.state === 'live')
    expect(items(second)).toEqual([])
  })

  it('resume through the worker what they missed while others went on', async () => {
    await using server = await scriptedStream()
    using browser = sharedBrowser()
    using first = open(server, browser)
    using second = open(server, browser)
    const stream = await server.next()
    stream.send(fresh('i1'), sse(text('i2', 'a')))
    await second.until(c => c.state.position === 'i2')
    second.drop()
    stream.send(sse(text('i3', 'b')), sse(text('i4', 'c')))
    await first.until(c => c.state.position === 'i4')
    second.resume()
    await second.until(c => c.connection.state === 'live' && c.state.position === 'i4')
    expect(second.state.outcome).toBe('resumed')
    expect(items(second)).toEqual(items(first))
    expect(second.frames.filter(f => f.event === 'snapshot')).toHaveLength(1)
    expect(server.opened).toBe(1)
  })

  it('leave the server with the last of them, and the next one resumes by id', async () => {
    await using server = await scriptedStream()
    using browser = sharedBrowser()
    using only = open(server, browser)
    const stream = await server.next()
    stream.send(fresh('i1'), sse(text('i2', 'a')))
    await only.until(c => c.state.position === 'i2')
    only.drop()
    await stream.gone
    only.resume()
    const again = await server.next()
    expect(again.lastEventId).toBe('i2')
    again.send(sse(hello('resumed')), sse(text('i3', 'b')), sse(caughtUp('i4')))
    await only.until(c => c.state.position === 'i4' && c.connection.state === 'live')
    expect(items(only)).toMatchObject([{ text: 'ab' }])
  })

  it('outlive the tab that opened the stream', async () => {
    await using server = await scriptedStream()
    using browser = sharedBrowser()
    const leader = open(server, browser)
    using other = open(server, browser)
    const stream = await server.next()
    stream.send(fresh('i1'))
    await other.until(c => c.connection.state === 'live')
    leader.close()
    stream.send(sse(text('i2', 'on')))
    await other.until(c => c.state.position === 'i2')
    expect(server.opened).toBe(1)
  })

  it('are told of a lost connection, keep no half burst, and recover without being asked', async () => {
    await using server = await scriptedStream()
    using browser = sharedBrowser()
    using tab = open(server, browser)
    using other = open(server, browser)
    const stream = await server.next()
    stream.send(fresh('i1'), sse(text('i2', 'a')))
    await other.until(c => c.state.position === 'i2')
    stream.send(sse(hello('fresh')), sse(snapshot()))
    await other.until(c => c.frames.at(-1)?.event === 'snapshot')
    stream.cut()
    await Promise.all([tab, other].map(t => t.until(c => c.connection.state === 'stale')))
    expect(items(other)).toMatchObject([{ text: 'a' }])
    const again = await server.next()
    expect(again.lastEventId).toBe('i2')
    again.send(sse(hello('resumed')), sse(text('i3', 'b')), sse(caughtUp('i4')))
    await Promise.all([tab, other].map(t => t.until(c => c.connection.state === 'live')))
    expect(items(other)).toMatchObject([{ text: 'ab' }])
    expect(items(tab)).toEqual(items(other))
  })

  it('are never terminal while the server is away, and one that comes then makes it try at once', async () => {
    const server = await scriptedStream()
    const port = Number(new URL(server.url).port)
    using browser = sharedBrowser()
    using tab = open(server, browser)
    ;(await server.next()).send(fresh('i1'))
    await tab.until(c => c.connection.state === 'live')
    await server[Symbol.asyncDispose]()
    await tab.until(c => c.connection.state === 'offline')
    await using back = await scriptedStream(port)
    using late = open(back, browser)
    const again = await back.next()
    again.send(sse(hello('resumed')), sse(caughtUp('i2')))
    await Promise.all([tab, late].map(t => t.until(c => c.connection.state === 'live')))
    expect(late.connections.map(c => c.state)).not.toContain('denied')
  })

  it.each([
    [401, 'signed_out'],
    [404, 'denied'],
  ] as const)('all end with %i until one asks anew', async (status, state) => {
    await using server = await scriptedStream()
    using browser = sharedBrowser()
    using tab = open(server, browser)
    using other = open(server, browser)
    ;(await server.next()).answer(status, {}, JSON.stringify({ code: 'worker_not_found', status }))
    await Promise.all([tab, other].map(t => t.until(c => c.connection.state === state)))
    expect(tab.connection).toMatchObject({ code: 'worker_not_found' })
    tab.reconnect()
    ;(await server.next()).send(fresh('i1'))
    await tab.until(c => c.connection.state === 'live')
  })

  it('are let go when they answer no more, and may join anew', async () => {
    await using server = await scriptedStream()
    using browser = sharedBrowser()
    using awake = open(server, browser)
    const frozen = new MessageChannel()
    const hubSide = frozen.port2
    browser.ports.push(frozen.port1)
    const wish = { url: server.url, selection: { runtime: 'rt', worker: 'w' }, viewer: 'ana' }
    browser.take(hubSide)
    frozen.port1.postMessage({ do: 'join', wish, position: null })
    let asked = 0
    let stream: Connection | undefined
    const ended = new Promise<void>(resolve =>
      frozen.port1.addEventListener('message', ({ data }) => {
        if (data.say === 'end') resolve()
        if (data.say !== 'here') return
        asked += 1
        stream?.send(sse(beat(`b${asked}`)))
      }),
    )
    stream = await server.next()
    stream.send([hello('fresh', 40), snapshot(), caughtUp('i1')].map(sse).join(''))
    frozen.port1.start()
    await awake.until(c => c.connection.state === 'live')
    await ended
    // One with its coming, and eight that it did not answer.
    expect(asked).toBe(9)
    expect(server.open).toBe(1)
  })

  it('are let go when more waits for them than may', async () => {
    await using server = await scriptedStream()
    using browser = sharedBrowser()
    const { port1, port2 } = new MessageChannel()
    browser.ports.push(port1)
    browser.take(port2)
    const wish = { url: server.url, selection: { runtime: 'rt', worker: 'w' }, viewer: 'ana' }
    let units = 0
    const ended = new Promise<void>(resolve =>
      port1.addEventListener('message', ({ data }) => {
        if (data.say === 'event') units += data.event.data.length
        if (data.say === 'end') resolve()
      }),
    )
    port1.start()
    port1.postMessage({ do: 'join', wish, position: null })
    const stream = await server.next()
    stream.send(fresh('i1'))
    const large = 'x'.repeat(1_000_000)
    for (let i = 2; i < 40; i++)
      stream.send(
        sse(envelope(`i${i}`, 'text_done', { text: large }, { item: 'a', begins: true, block: 'b' })),
      )
    await ended
    expect(units).toBeLessThan(20_000_000)
    await stream.gone
  })
})

describe('a tab', () => {
  it.each([
    [
      'no shared worker can be made',
      () => {
        throw new ReferenceError('SharedWorker is not defined')
      },
    ],
    [
      'its script does not load',
      () => {
        const { port1 } = new MessageChannel()
        return { port: port1, addEventListener: (_: 'error', run: () => void) => void setTimeout(run, 1) }
      },
    ],
  ])('has a stream of its own where %s', async (_, connect) => {
    await using server = await scriptedStream()
    using client = observedClient({ url: server.url, share: { connect, viewer: 'ana' } })
    const stream = await server.next()
    stream.send(fresh('i1'))
    await client.until(c => c.connection.state === 'live')
    stream.send(sse(beat('i2')))
    await client.until(c => c.state.position === 'i2')
    client.drop()
    client.resume()
    expect((await server.next()).lastEventId).toBe('i2')
  })
})
