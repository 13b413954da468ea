import { describe, expect, test } from 'vitest'
import { observe } from '../../test/_support/observation-client.ts'
import {
  isSnapshot,
  liveEvents,
  loadRecording,
  parseRecording,
  payloadOf,
  recordedWorkers,
  recordingNames,
} from './recording.ts'
import { replayInto } from './replay-into.ts'
import { fencePlace, replayVerbatim } from './replay-verbatim.ts'
import { startEmbeddedRuntime } from './runtime.ts'

const directory = new URL('../../test/recordings', import.meta.url).pathname
const names = await recordingNames(directory)

describe('a recording', () => {
  test('refuses a line that is none, naming it', () => {
    expect(() => parseRecording('bad', '{"t_ms":1,"conn":0,"kind":"note","text":"x"}\nnonsense')).toThrow(
      'bad:2',
    )
  })

  test('tells refused upgrades, closes and queries of its connections', async () => {
    const recording = await loadRecording(directory, 'malformed-cursor')
    const connection = (conn: number) => recording.connections.find(one => one.conn === conn)
    expect(connection(13)?.refused?.status).toBe(400)
    expect(connection(2)).toMatchObject({ query: 'cursor=abc', route: 'events', workerId: '1' })
    expect(connection(2)?.close).toMatchObject({ code: 1006, byClient: false })
    expect(connection(8)?.close).toMatchObject({ byClient: true })
  })

  test('counts each event of a worker once, whichever connections heard it', async () => {
    const readers = await loadRecording(directory, 'two-readers')
    const events = liveEvents(readers, '1')
    expect(new Set(events.map(event => event.json)).size).toBeGreaterThan(20)
    expect(events.filter(event => event.json.includes('"event":"run_end"'))).toHaveLength(1)
  })

  test('has the events of all its workers in the order of their cursors', async () => {
    const workers = await loadRecording(directory, 'two-workers')
    expect(recordedWorkers(workers)).toEqual(['1', '2'])
    const order = liveEvents(workers).map(event => event.workerId)
    expect(order.join('')).toContain('12')
    expect(order.join('')).toContain('21')
    expect(order).toHaveLength(0x53)
  })
})

describe('a recording served again', () => {
  test.each(names)('says every connection of %s as it was', async name => {
    const recording = await loadRecording(directory, name)
    for (const connection of recording.connections) {
      if (connection.refused || connection.route === 'other' || connection.workerId === '') continue
      await using runtime = await replayVerbatim(recording, { connection: connection.conn, pingWaitMs: 1 })
      const said = connection.frames.filter(
        frame => frame.fromRuntime && (frame.kind === 'text' || frame.kind === 'binary'),
      )
      const path = `/v1/workers/${encodeURIComponent(connection.workerId)}/${connection.route}/ws`
      await using client = await observe(runtime.url, path)
      const got = await client.take(said.length)
      expect(got).toEqual(said.map(frame => frame.text))
      if (connection.close && !connection.close.byClient) expect(await client.closed).toBe(1006)
    }
  })

  test('answers the fence after what came before the first recorded pong', async () => {
    const recording = await loadRecording(directory, 'ping-fence')
    await using runtime = await replayVerbatim(recording, { connection: 3 })
    await using client = await observe(runtime.url, '/v1/workers/1/events/ws')
    const before = await client.fence()
    expect(before).toHaveLength(1)
    expect(before[0]).toContain('"event_id":"snapshot:wo_000000000000051e"')
  })

  test('puts the fence after the snapshot, and with a cursor after the backlog, where no pong was recorded', async () => {
    const recording = await loadRecording(directory, 'reconnect-good-cursor')
    const place = (conn: number): number => {
      const connection = recording.connections.find(one => one.conn === conn)
      return connection ? fencePlace(recording, connection) : -1
    }
    expect(place(1)).toBe(1)
    const [drop] = recording.connections.filter(one => one.conn === 8)
    const backlog = drop?.frames.slice(1, place(8)).map(frame => frame.text)
    expect(backlog?.at(-1)).toContain('word11')
    expect(drop?.frames[place(8)]?.text).toContain('word12')
  })

  test('gives the n-th connection what the n-th got, and repeats the last', async () => {
    const recording = await loadRecording(directory, 'plain-text')
    await using runtime = await replayVerbatim(recording, { pingWaitMs: 1 })
    for (let times = 0; times < 3; times += 1) {
      await using client = await observe(runtime.url, '/v1/workers/1/events/ws')
      await client.next()
      runtime.cut()
      expect(await client.closed).toBe(1006)
    }
    expect(runtime.served).toEqual([1, 3, 3])
  })

  test('answers requests in order, repeats the last, and makes a listing up where none was recorded', async () => {
    const stop = await replayVerbatim(await loadRecording(directory, 'stop'))
    await using _stop = stop
    const ask = async (url: string, path: string): Promise<string> => (await fetch(url + path)).text()
    expect(await ask(stop.url, '/v1/workers/1')).toContain('"status":"stopped"')
    const thinking = await replayVerbatim(await loadRecording(directory, 'thinking-text'))
    await using _thinking = thinking
    expect(await ask(thinking.url, '/v1/workers')).toContain('"worker_id":1')
    expect(await ask(thinking.url, '/v1/workers/1')).toContain('"worker_id":1')
    const fresh = await replayVerbatim(await loadRecording(directory, 'rest'))
    await using _fresh = fresh
    expect(await ask(fresh.url, '/v1/workers')).toBe('{"workers":[]}')
    expect(await ask(fresh.url, '/v1/workers')).toContain('"worker_id":1')
    expect(await ask(fresh.url, '/v1/workers')).toContain('"worker_id":1')
  })
})

describe('a recording played into a worker', () => {
  test.each(['tools', 'later-slow-tool'])('publishes the events of %s byte for byte', async name => {
    const recording = await loadRecording(directory, name)
    await using runtime = await startEmbeddedRuntime({ generation: recording.generation })
    const worker = runtime.addWorker()
    await replayInto(worker, recording, { speed: Number.POSITIVE_INFINITY })
    const said = runtime.log.after(worker.id, 0n).map(frame => payloadOf(frame))
    expect(said).toEqual(liveEvents(recording).map(event => event.json))
    expect(said.some(payload => isSnapshot(payload ?? ''))).toBe(false)
    expect(worker.snapshotData()).toContain('The slow command is over.'.slice(0, name === 'tools' ? 0 : 25))
  })

  test('keeps the recorded pauses, scaled, and none longer than two seconds', async () => {
    const recording = await loadRecording(directory, 'idle-socket')
    await using runtime = await startEmbeddedRuntime({ generation: 'events-ws' })
    const pauses: number[] = []
    await replayInto(runtime.addWorker(), recording, {
      speed: 2,
      wait: ms => {
        pauses.push(ms)
        return Promise.resolve()
      },
    })
    expect(pauses.length).toBeGreaterThan(5)
    expect(Math.max(...pauses)).toBeLessThanOrEqual(1_000)
  })

  test('ends by its signal', async () => {
    const recording = await loadRecording(directory, 'tools')
    await using runtime = await startEmbeddedRuntime({ generation: 'events-ws' })
    const worker = runtime.addWorker()
    const abort = new AbortController()
    await replayInto(worker, recording, {
      signal: abort.signal,
      wait: () => {
        abort.abort()
        return Promise.resolve()
      },
    })
    expect(worker.lastPosition).toBeLessThan(20)
  })
})
