import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { type ObservationClient, observe } from '../../test/_support/observation-client.ts'
import type { Generation } from './events.ts'
import { misbehave, unavailable } from './misbehave.ts'
import { type EmbeddedRuntime, type EmbeddedRuntimeOptions, startEmbeddedRuntime } from './runtime.ts'
import type { EmbeddedWorker } from './worker.ts'

const delta = (text: string) => ({ event: 'text_delta', data: { text } })

const open = (runtime: EmbeddedRuntime, worker: EmbeddedWorker, query = ''): Promise<ObservationClient> => {
  const route = runtime.generation === 'events-ws' ? 'events' : 'protocol'
  return observe(runtime.url, `/v1/workers/${worker.id}/${route}/ws${query}`)
}

const start = async (
  options: Partial<EmbeddedRuntimeOptions> = {},
): Promise<{ runtime: EmbeddedRuntime; worker: EmbeddedWorker }> => {
  const runtime = await startEmbeddedRuntime({ generation: 'events-ws', ...options })
  return { runtime, worker: runtime.addWorker() }
}

const textsOf = (frames: readonly string[]): string[] =>
  frames.flatMap(frame => /"event":"text_delta","data":\{"text":"([^"]*)"/.exec(frame)?.[1] ?? [])

describe.each<Generation>(['events-ws', 'protocol-ws'])('a Runtime of the generation %s', generation => {
  test('says the snapshot, then the backlog, and answers a ping only after both', async () => {
    const { runtime, worker } = await start({ generation })
    await using _ = runtime
    for (let at = 0; at < 900; at += 1) worker.emit(delta(`${at}`))
    await using client = await open(runtime, worker, '?cursor=wo_0000000000000000')
    const before = await client.fence()
    expect(before[0]).toContain('"event":"snapshot"')
    expect(textsOf(before)).toHaveLength(900)
    worker.emit(delta('live'))
    expect(await client.next()).toContain('live')
  })

  test('sends each worker its own events alone', async () => {
    const { runtime, worker } = await start({ generation })
    await using _ = runtime
    const other = runtime.addWorker()
    await using client = await open(runtime, worker)
    await client.fence()
    other.emit(delta('theirs'))
    worker.emit(delta('ours'))
    expect(await client.next()).toContain('ours')
  })

  test('ends every socket with 1006 at a restart and is there again on the same port', async () => {
    const { runtime, worker } = await start({ generation, store: 'memory-store' })
    await using _ = runtime
    await using client = await open(runtime, worker)
    const { url } = runtime
    let refusedWhileDown = false
    await runtime.restart({
      whileDown: async () => {
        refusedWhileDown = await fetch(`${url}/v1/runtime`).then(
          () => false,
          () => true,
        )
      },
    })
    expect(await client.closed).toBe(1006)
    expect(refusedWhileDown).toBe(true)
    expect(runtime.url).toBe(url)
    expect((await fetch(`${url}/v1/workers/${worker.id}`)).status).toBe(200)
  })

  test('ends an overrun reader after what lay in the buffers, with the reason as its last frame', async () => {
    const { runtime, worker } = await start({ generation })
    await using _ = runtime
    const socket = connect(runtime.port, '127.0.0.1')
    const route = generation === 'events-ws' ? 'events' : 'protocol'
    socket.write(
      `GET /v1/workers/${worker.id}/${route}/ws HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n` +
        'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n',
    )
    await runtime.traffic.until(() => runtime.connectionsOpen === 1)
    let sent = 0
    while (!worker.waiting) {
      worker.emit(delta('x'.repeat(16_000)))
      sent += 1
      await new Promise(resolve => setImmediate(resolve))
    }
    for (let more = 0; more < 257; more += 1) worker.emit(delta(`late-${more}`))
    let text = ''
    for await (const part of socket) text += String(part)
    expect(sent).toBeGreaterThan(10)
    expect(text.endsWith('"message":"runtime observation backlog was overrun"}}')).toBe(true)
    expect(text).not.toContain('late-')
  })

  test('sends a slow reader what waited, while it is no more than the queue holds', async () => {
    const { runtime, worker } = await start({ generation })
    await using _ = runtime
    await using client = await open(runtime, worker)
    await client.fence()
    client.socket.pause()
    let sent = 0
    while (!worker.waiting) {
      worker.emit(delta('x'.repeat(16_000)))
      sent += 1
      await new Promise(resolve => setImmediate(resolve))
    }
    for (let more = 0; more < 200; more += 1) worker.emit(delta(`late-${more}-${'x'.repeat(64_000)}`))
    client.socket.resume()
    const texts = textsOf(await client.take(sent + 200))
    const late = texts
      .filter(text => text.startsWith('late-'))
      .map(text => Number.parseInt(text.slice(5), 10))
    expect(late).toEqual(Array.from({ length: 200 }, (_one, at) => at))
  })

  test('asks for its token before it looks at anything', async () => {
    const { runtime, worker } = await start({ generation, token: 'secret' })
    await using _ = runtime
    const asked = await Promise.all([
      fetch(`${runtime.url}/nothing`),
      fetch(`${runtime.url}/v1/workers`, { headers: { authorization: 'bearer secret' } }),
      fetch(`${runtime.url}/v1/workers`, { headers: { authorization: 'Bearer secret' } }),
    ])
    expect(asked.map(response => response.status)).toEqual([401, 401, 200])
    await expect(open(runtime, worker)).rejects.toThrow('401')
  })

  test('remembers what it was asked', async () => {
    const { runtime, worker } = await start({ generation })
    await using _ = runtime
    await using _client = await open(runtime, worker, '?cursor=wo_0000000000000000')
    const body = JSON.stringify({ kind: 'user', content: 'hello' })
    await fetch(`${runtime.url}/v1/workers/${worker.id}/input`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
    await runtime.traffic.until(() => runtime.traffic.inputs.length === 1)
    expect(runtime.traffic.inputs).toEqual([{ workerId: worker.id, body, status: 200 }])
    expect(runtime.traffic.count('POST', `/v1/workers/${worker.id}/input`)).toBe(1)
    expect(runtime.traffic.upgrades[0]).toMatchObject({ cursor: 'wo_0000000000000000', status: 101 })
  })
})

describe('a store', () => {
  test('keeps numbers, events and history over a restart', async () => {
    const { runtime, worker } = await start({ store: 'memory-store' })
    await using _ = runtime
    worker.emit({ event: 'user_message', data: { segments: [{ kind: 'text', content: 'kept' }] } })
    worker.emit(delta('one'))
    await runtime.restart()
    worker.emit(delta('two'))
    await using client = await open(runtime, worker, '?cursor=wo_0000000000000001')
    const said = await client.fence()
    expect(said[0]).toContain('"content":"kept"')
    expect(textsOf(said)).toEqual(['one', 'two'])
    expect(said[2]).toContain('"cursor":"wo_0000000000000003"')
  })

  test('is missing: the same numbers name other events of another worker afterwards', async () => {
    const { runtime, worker } = await start()
    await using _ = runtime
    worker.emit(delta('before'))
    const [again] = await misbehave(runtime).alias()
    expect(again?.id).toBe(worker.id)
    again?.emit(delta('after'))
    await using client = await open(runtime, again ?? worker, '?cursor=wo_0000000000000000')
    expect(textsOf(await client.fence())).toEqual(['after'])
  })
})

describe('a Runtime that misbehaves', () => {
  const together = async () => {
    const { runtime, worker } = await start()
    const client = await open(runtime, worker)
    await client.fence()
    return { runtime, worker, client, wrong: misbehave(runtime) }
  }

  test('cuts connections without a close frame', async () => {
    const { runtime, client, wrong } = await together()
    await using _ = runtime
    wrong.cut()
    expect(await client.closed).toBe(1006)
  })

  test('stalls: nothing comes and no ping is answered, until it goes on', async () => {
    const { runtime, worker, client, wrong } = await together()
    await using _ = runtime
    await using _client = client
    wrong.stall(worker.id)
    worker.emit(delta('held'))
    client.socket.ping('anybody')
    await fetch(`${runtime.url}/v1/runtime`)
    expect(client.heard).toHaveLength(2)
    wrong.unstall(worker.id)
    expect((await client.take(2)).sort()).toEqual(
      [expect.stringContaining('pong anybody'), expect.stringContaining('held')].sort(),
    )
  })

  test('overruns a stalled reader when too much passed', async () => {
    const { runtime, worker, client, wrong } = await together()
    await using _ = runtime
    wrong.stall()
    for (let at = 0; at < 257; at += 1) worker.emit(delta(`${at}`))
    wrong.unstall()
    expect(await client.next()).toContain('runtime.cursor_expired')
    expect(await client.closed).toBe(1006)
  })

  test('keeps pongs back', async () => {
    const { runtime, worker, client, wrong } = await together()
    await using _ = runtime
    await using _client = client
    wrong.holdPongs(true)
    client.socket.ping('late')
    worker.emit(delta('first'))
    expect(await client.next()).toContain('first')
    wrong.holdPongs(false)
    expect(await client.next()).toBe('pong late')
  })

  test('evicts what a worker had retained, so that a lower cursor is refused', async () => {
    const { runtime, worker, client, wrong } = await together()
    await using _ = runtime
    await using _client = client
    for (const text of ['a', 'b', 'c']) worker.emit(delta(text))
    wrong.evict(worker.id, 1)
    await using late = await open(runtime, worker, '?cursor=wo_0000000000000001')
    expect(await late.next()).toContain('"event_id":"snapshot:wo_0000000000000001"')
    expect(await late.next()).toContain('is expired for worker 1')
    expect(await late.closed).toBe(1006)
  })

  test('loses events before they are numbered: no gap, no sign, and the log has them', async () => {
    const { runtime, worker, client, wrong } = await together()
    await using _ = runtime
    await using _client = client
    wrong.lose(worker.id, 2, event => event.event === 'text_delta')
    worker.emit({ event: 'turn_start', data: { turn: 0 } })
    for (const text of ['a', 'b', 'c']) worker.emit(delta(text))
    const [start, only] = await client.take(2)
    expect(start).toContain('"cursor":"wo_0000000000000001"')
    expect(only).toContain('"cursor":"wo_0000000000000002"')
    expect(only).toContain('"text":"c"')
    expect(worker.snapshotData()).toContain('"text":"abc"')
  })

  test('says an event twice under one id', async () => {
    const { runtime, worker, client, wrong } = await together()
    await using _ = runtime
    await using _client = client
    wrong.double(worker.id, 1)
    worker.emit(delta('twice'))
    const [first, second] = await client.take(2)
    expect(second).toBe(first)
  })

  test('is ahead with its snapshot: the text in it comes again', async () => {
    const { runtime, worker, client, wrong } = await together()
    await using _ = runtime
    await using _client = client
    for (const text of ['a', 'b', 'c']) worker.emit(delta(text))
    wrong.overlap(worker.id, 2)
    await using late = await open(runtime, worker)
    const said = await late.fence()
    expect(said[0]).toContain('"text":"abc"')
    expect(said[0]).toContain('"event_id":"snapshot:wo_0000000000000001"')
    expect(textsOf(said)).toEqual(['b', 'c'])
  })

  test('sends frames and snapshots of any size', async () => {
    const { runtime, worker, client, wrong } = await together()
    await using _ = runtime
    await using _client = client
    wrong.oversizeEvent(worker.id, 1_000_000)
    expect((await client.next()).length).toBeGreaterThan(1_000_000)
    wrong.oversizeSnapshot(worker.id, 2_000_000)
    await using late = await open(runtime, worker)
    expect((await late.next()).length).toBeGreaterThan(2_000_000)
  })

  test('sends what is no frame, names no known event, or names another worker', async () => {
    const { runtime, worker, client, wrong } = await together()
    await using _ = runtime
    await using _client = client
    wrong.malformed(worker.id, '{"half":')
    wrong.foreignFrame(worker.id, '77')
    wrong.binary(worker.id, new Uint8Array([1, 2]))
    wrong.unknownEvent(worker.id)
    const [half, foreign, binary, unknown] = await client.take(4)
    expect(half).toBe('{"half":')
    expect(foreign).toContain('"worker_id":77')
    expect(binary).toBe('binary 0102')
    expect(unknown).toContain('weather_report')
  })

  test('refuses upgrades and requests as often as it is told', async () => {
    const { runtime, worker, client, wrong } = await together()
    await using _ = runtime
    await using _client = client
    wrong.refuseUpgrades(unavailable)
    wrong.refuseRequests({ status: 503, headers: {}, body: '' }, 2)
    await expect(open(runtime, worker)).rejects.toThrow('500')
    const ask = async (): Promise<number> => (await fetch(`${runtime.url}/v1/workers`)).status
    expect([await ask(), await ask(), await ask()]).toEqual([503, 503, 200])
    await using again = await open(runtime, worker)
    expect(await again.next()).toContain('snapshot')
    wrong.changeToken('new')
    expect(await ask()).toBe(401)
  })
})
