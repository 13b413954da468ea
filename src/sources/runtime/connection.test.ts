import { once } from 'node:events'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { VirtualClock } from '../../../test/_support/virtual-clock.ts'
import {
  type Accepted,
  rawAnswer,
  startWireServer,
  type WireServer,
} from '../../../test/_support/wire-server.ts'
import type { Envelope } from '../../journal/entry.ts'
import type { Dialect } from '../source.ts'
import { Connection } from './connection.ts'
import { observationUrl } from './dialects.ts'
import type { RejectedFrame } from './held-frames.ts'
import { RUNTIME_LIMITS, type RuntimeLimits } from './limits.ts'
import { AFRESH, type Evidence, glance, type Opening, type Verdict } from './opening.ts'

/** Each wait of its own length, so that a test can name the one it means. */
const LIMITS: RuntimeLimits = { ...RUNTIME_LIMITS, handshakeMs: 11_000, snapshotMs: 9_000 }

let server: WireServer
let clock: VirtualClock
let wire: Accepted
const opened: Connection[] = []

beforeEach(async () => {
  server = await startWireServer()
  clock = new VirtualClock()
})

afterEach(async () => {
  for (const connection of opened.splice(0)) {
    connection.end('aborted')
    await connection.ended
  }
  await server[Symbol.asyncDispose]()
  expect(clock.pending).toBe(0)
})

interface Story {
  readonly told: string[]
  readonly verdicts: Verdict['verdict'][]
  readonly followed: boolean[]
  /** How much was told when all was that came before the fence. */
  readonly caughtUp: number[]
  readonly accepted: Envelope[]
  readonly rejected: RejectedFrame[]
  readonly connection: Connection
  until(count: number): Promise<void>
}

const open = (
  dialect: Dialect = 'events-ws',
  limits: Partial<RuntimeLimits> = {},
  token?: string,
  opening: Opening = AFRESH,
): Story => {
  const waiting = new Set<() => void>()
  const tell = (what: string) => {
    story.told.push(what)
    for (const wake of waiting) wake()
    waiting.clear()
  }
  const connection = new Connection(
    {
      url: server.url,
      ...(token === undefined ? {} : { token }),
      dialect,
      worker: '1',
      connection: 'c',
    },
    opening,
    {
      believed: (snapshot, verdict, followed) => {
        story.verdicts.push(verdict)
        story.followed.push(followed)
        tell(`begin ${snapshot.eventId}`)
      },
      caughtUp: () => story.caughtUp.push(story.told.length),
      accept: envelope => {
        story.accepted.push(envelope)
        tell(nameOf(envelope))
      },
      reject: frame => {
        story.rejected.push(frame)
        tell(`reject ${frame.cause}`)
      },
    },
    { ...LIMITS, ...limits },
    clock,
  )
  const story: Story = {
    told: [],
    verdicts: [],
    followed: [],
    caughtUp: [],
    accepted: [],
    rejected: [],
    connection,
    async until(count) {
      while (story.told.length < count) await new Promise<void>(resolve => waiting.add(resolve))
    },
  }
  opened.push(connection)
  return story
}

const nameOf = ({ payload }: Envelope): string => {
  const { event, data } = JSON.parse(payload) as { event: string; data?: { text?: string; message?: string } }
  return [event, data?.text ?? data?.message].filter(part => part !== undefined).join(' ')
}

let cursors = 0
const numbered = (payload: string, id?: string, worker = 1) => {
  cursors += 1
  return `{"kind":"event","envelope":{"cursor":"wo_${cursors}","event_id":"${id ?? `wo_${cursors}`}","worker_id":${worker},"payload":${payload}}}`
}
const snapshotPayload = (provider = 'anthropic', fill = '') =>
  `{"event":"snapshot","data":{"entries":[],"greeting":{"provider":"${provider}","fill":"${fill}"},"status":"idle"}}`
const snapshot = (provider?: string, fill?: string) =>
  numbered(snapshotPayload(provider, fill), 'snapshot:wo_0')
const delta = (text: string) => `{"event":"text_delta","data":{"text":"${text}"}}`

/** Opens, says the snapshot, and answers the fence. */
const believed = async (
  dialect: Dialect = 'events-ws',
  limits: Partial<RuntimeLimits> = {},
): Promise<Story> => {
  const story = open(dialect, limits)
  wire = await server.accepted()
  wire.ws.send(dialect === 'events-ws' ? snapshot() : snapshotPayload())
  await wire.nextPing()
  wire.pong()
  await story.until(1)
  return story
}

/** Resolves when everything sent so far has been read. */
const settled = async ({ ws }: Accepted): Promise<void> => {
  ws.ping('settled')
  await once(ws, 'pong')
}

test('nothing is told before the fence, then the snapshot, what was held, and live events in their order', async () => {
  const story = open()
  wire = await server.accepted()
  wire.ws.send(snapshot())
  await wire.nextPing()
  for (const text of ['backlog 1', 'backlog 2', 'live before the pong']) wire.ws.send(numbered(delta(text)))
  wire.ws.send(numbered('{"event":"broken'))
  await settled(wire)
  expect(story.told).toEqual([])
  wire.pong()
  wire.ws.send(numbered(delta('live')))
  await story.until(6)
  expect(story.told).toEqual([
    'begin snapshot:wo_0',
    'text_delta backlog 1',
    'text_delta backlog 2',
    'text_delta live before the pong',
    'reject malformed',
    'text_delta live',
  ])
  expect(story.verdicts).toEqual(['fresh'])
  expect(story.followed).toEqual([true])
  expect(story.caughtUp).toEqual([5])
})

test('a pong that is not the fence is not believed', async () => {
  const story = open()
  wire = await server.accepted()
  wire.ws.pong('early')
  wire.ws.send(snapshot())
  await wire.nextPing()
  wire.ws.pong('of something else')
  wire.ws.send(numbered(delta('a')))
  await settled(wire)
  await clock.advance(LIMITS.fenceMs)
  expect(await story.connection.ended).toEqual({
    code: 'no_pong',
    opened: true,
    believedAt: null,
    verdict: null,
  })
  expect(story.told).toEqual([])
})

test('the token goes into the header exactly, and without one there is no header', async () => {
  open('events-ws', {}, 'demo-token')
  expect((await server.accepted()).request.headers.authorization).toBe('Bearer demo-token')
  open()
  expect((await server.accepted()).request.headers.authorization).toBeUndefined()
})

test('no compression is offered and the worker stands encoded in the path', async () => {
  open()
  const { request } = await server.accepted()
  expect(request.headers['sec-websocket-extensions']).toBeUndefined()
  expect(request.url).toBe('/v1/workers/1/events/ws')
  expect(observationUrl('https://a.example/rt/', 'a/../b?c', 'protocol-ws')).toBe(
    'wss://a.example/rt/v1/workers/a%2F..%2Fb%3Fc/protocol/ws',
  )
})

const refusals: readonly [string, string, string][] = [
  ['a wrong token', rawAnswer(401, '{"error":{"code":"unauthorized","message":"m"}}'), 'unauthorized'],
  [
    'a worker that is not there',
    rawAnswer(404, '{"error":{"code":"worker_not_found","message":"m"}}'),
    'worker_gone',
  ],
  ['a route that is not there', rawAnswer(404), 'route_missing'],
  ['a page of another server', rawAnswer(404, '<html></html>'), 'refused'],
  ['a redirect', rawAnswer(307, '', { location: '/v1/workers/2/events/ws' }), 'refused'],
  ['an answer that is no upgrade', rawAnswer(200, '{}'), 'refused'],
  ['a Runtime out of order', rawAnswer(500, '{"error":{"code":"internal","message":"m"}}'), 'unreachable'],
  ['a body without end', rawAnswer(404, 'x'.repeat(20_000)), 'refused'],
  ['no HTTP at all', 'SSH-2.0-server\r\n', 'unreachable'],
]

test.each(refusals)('%s is told from other refusals', async (_what, answer, code) => {
  server.refuse = () => answer
  const { connection } = open()
  expect(await connection.ended).toEqual({ code, opened: false, believedAt: null, verdict: null })
  expect(server.requests).toHaveLength(1)
})

test('a port where nothing listens is unreachable', async () => {
  await server[Symbol.asyncDispose]()
  expect(await open().connection.ended).toMatchObject({ code: 'unreachable' })
  server = await startWireServer()
})

test('an upgrade that is never answered ends in its time', async () => {
  server.refuse = () => 'HTTP/1.1 404 x\r\ncontent-length: 5\r\n\r\nab'
  const { connection } = open()
  await clock.advance(LIMITS.handshakeMs)
  expect(await connection.ended).toMatchObject({ code: 'unreachable', opened: false })
})

test('a connection that gives no snapshot ends, and one whose snapshot is still coming does not', async () => {
  const silent = open()
  await server.accepted()
  await clock.waiting(ms => ms === LIMITS.snapshotMs)
  await clock.advance(LIMITS.snapshotMs)
  expect(await silent.connection.ended).toMatchObject({ code: 'no_snapshot' })

  const slow = open()
  const { socket, nextPing } = await server.accepted()
  const text = Buffer.from(snapshot('anthropic', 'x'.repeat(60_000)))
  const head = Buffer.from([0x81, 126, text.length >> 8, text.length & 255])
  for (const part of [Buffer.concat([head, text.subarray(0, 20_000)]), text.subarray(20_000, 40_000)]) {
    const before = slow.connection.bytesRead
    socket.write(part)
    while (slow.connection.bytesRead < before + part.length)
      await new Promise(resolve => setImmediate(resolve))
    await clock.advance(LIMITS.snapshotMs - 1)
  }
  socket.write(text.subarray(40_000))
  await nextPing()
  slow.connection.end('aborted')
})

test('a first frame that is no snapshot is not observed', async () => {
  const story = open()
  wire = await server.accepted()
  wire.ws.send(numbered(delta('a')))
  expect(await story.connection.ended).toMatchObject({ code: 'bad_opening' })
})

test('more than is held before the fence ends the connection', async () => {
  for (const limits of [{ heldFrames: 3 }, { heldBytes: 400 }]) {
    const story = open('events-ws', limits)
    wire = await server.accepted()
    wire.ws.send(snapshot())
    for (let i = 0; i < 4; i += 1) wire.ws.send(numbered(delta('a')))
    expect(await story.connection.ended).toMatchObject({ code: 'held_too_much', believedAt: null })
    expect(story.told).toEqual([])
  }
})

test('silence is asked after with a ping, and ends the connection if that is not answered', async () => {
  const story = await believed()
  await clock.advance(LIMITS.pingAfterMs)
  await wire.nextPing()
  wire.pong()
  wire.ws.send(numbered(delta('alive')))
  await story.until(2)
  await clock.advance(LIMITS.pingAfterMs)
  await wire.nextPing()
  await clock.advance(LIMITS.silentMs - LIMITS.pingAfterMs)
  expect(await story.connection.ended).toMatchObject({ code: 'silent', believedAt: expect.any(Number) })
})

test('a process that slept does not take its own sleep for silence', async () => {
  const story = await believed()
  await clock.oversleep(3_600_000)
  wire.ws.send(numbered(delta('still here')))
  await story.until(2)
  expect(story.told[1]).toBe('text_delta still here')
})

test('a socket that stands still for pressure is not silent, and reads on where it stopped', async () => {
  const story = await believed()
  story.connection.pause()
  wire.ws.send(numbered(delta('a')))
  await clock.advance(10 * LIMITS.silentMs)
  expect(story.told).toHaveLength(1)
  story.connection.resume()
  await story.until(2)
  expect(story.told[1]).toBe('text_delta a')
})

test('a fence is not missed while its socket stands still', async () => {
  const story = open()
  story.connection.pause()
  wire = await server.accepted()
  wire.ws.send(snapshot())
  await clock.waiting(ms => ms === LIMITS.snapshotMs)
  await clock.advance(5 * LIMITS.snapshotMs)
  story.connection.resume()
  await wire.nextPing()
  story.connection.pause()
  wire.pong()
  await clock.advance(5 * LIMITS.fenceMs)
  story.connection.resume()
  await story.until(1)
})

test('a paused connection ends at once when it is told to', async () => {
  const story = await believed()
  story.connection.pause()
  wire.ws.send(numbered(delta('x'.repeat(200_000))))
  story.connection.end('left')
  expect(await story.connection.ended).toMatchObject({ code: 'left' })
  await wire.gone
  expect(story.told).toHaveLength(1)
})

test('what cannot be taken is rejected with its cause, its size and a bounded body, and the stream goes on', async () => {
  const story = await believed('events-ws', { frameBytes: 1_000, quarantineChars: 20 })
  const big = numbered(delta('x'.repeat(2_000)))
  wire.ws.send('{"kind":"event","envelope":{')
  wire.ws.send(Buffer.from([1, 2, 3]))
  wire.ws.send(numbered(delta('a'), 'wo_9', 2))
  wire.ws.send(big)
  wire.ws.send(numbered('{"event":"weather_report","data":{"wind":3}}'))
  await story.until(6)
  expect(story.told.slice(1)).toEqual([
    'reject malformed',
    'reject binary',
    'reject foreign_worker',
    'reject too_large',
    'weather_report',
  ])
  expect(story.rejected[0]).toMatchObject({ bytes: 28, body: '{"kind":"event","env', time: clock.now() })
  expect(story.rejected[1]).toMatchObject({ bytes: 3, body: 'AQID' })
  expect(story.rejected[3]).toMatchObject({ bytes: big.length, body: big.slice(0, 20) })
})

test('a snapshot may be larger than an event, in any order of its keys', async () => {
  const story = await believed('events-ws', { frameBytes: 1_000 })
  const payload = snapshotPayload('anthropic', 'x'.repeat(2_000))
  wire.ws.send(numbered(payload))
  wire.ws.send(`{"envelope":{"payload":${payload},"worker_id":1,"event_id":"z"},"kind":"event"}`)
  wire.ws.send(
    `{"envelope":{"payload":${delta('x'.repeat(2_000))},"worker_id":1,"event_id":"z"},"kind":"event"}`,
  )
  await story.until(4)
  expect(story.told.slice(1)).toEqual(['snapshot', 'snapshot', 'reject too_large'])
})

test('a frame beyond the hard limit ends the connection: as a snapshot before there is one, as an event after', async () => {
  const limits = { hardFrameBytes: 10_000 }
  const first = open('events-ws', limits)
  wire = await server.accepted()
  wire.ws.send(snapshot('anthropic', 'x'.repeat(20_000)))
  expect(await first.connection.ended).toMatchObject({
    code: 'snapshot_too_large',
    opened: true,
    believedAt: null,
  })
  const second = await believed('events-ws', limits)
  wire.ws.send(numbered(delta('x'.repeat(20_000))))
  expect(await second.connection.ended).toMatchObject({ code: 'frame_too_large' })
})

test('at its own limits an event of 9 MiB is rejected whole, and a snapshot of 200 MiB refused by its length alone', async () => {
  const story = await believed()
  const event = numbered(delta('x'.repeat(9 * 1024 * 1024)))
  wire.ws.send(event)
  wire.ws.send(numbered(delta('and on')))
  await story.until(3)
  expect(story.told.slice(1)).toEqual(['reject too_large', 'text_delta and on'])
  expect(story.rejected[0]).toMatchObject({
    bytes: event.length,
    body: event.slice(0, LIMITS.quarantineChars),
  })

  const large = open()
  const { socket } = await server.accepted()
  const header = Buffer.from([0x81, 127, 0, 0, 0, 0, 0, 0, 0, 0])
  header.writeBigUInt64BE(200n * 1024n * 1024n, 2)
  socket.write(header)
  expect(await large.connection.ended).toMatchObject({ code: 'snapshot_too_large' })
})

test('bytes that are no text end the connection as a loss', async () => {
  const story = await believed()
  wire.ws.send(Buffer.from([0x22, 0xff, 0x22]), { binary: false })
  expect(await story.connection.ended).toMatchObject({ code: 'garbled' })
})

test.each([
  ['runtime.cursor_expired', 'overrun'],
  ['runtime.observation_only', 'dismissed'],
  ['runtime.something_new', 'dismissed'],
])('the diagnostic %s ends the connection as %s', async (diagnostic, code) => {
  const story = await believed()
  wire.ws.send(`{"kind":"diagnostic","diagnostic":{"code":"${diagnostic}","message":"m"}}`)
  expect(await story.connection.ended).toMatchObject({ code })
})

test('a refused cursor shows a snapshot first, and nothing of it is believed', async () => {
  const story = open()
  wire = await server.accepted()
  wire.ws.send(snapshot())
  wire.ws.send(
    '{"kind":"diagnostic","diagnostic":{"code":"runtime.cursor_unknown_or_expired","message":"m"}}',
  )
  expect(await story.connection.ended).toMatchObject({ code: 'dismissed', believedAt: null })
  expect(story.told).toEqual([])
})

test('an end without a close frame and one with it are the same', async () => {
  for (const close of [(it: Accepted) => it.ws.terminate(), (it: Accepted) => it.ws.close(1000, 'bye')]) {
    const story = await believed()
    close(wire)
    expect(await story.connection.ended).toMatchObject({ code: 'closed' })
  }
})

const diagnostic = (code: string) =>
  `{"kind":"diagnostic","diagnostic":{"code":"runtime.${code}","message":"m"}}`

/** Asks from a cursor; the judge says what the test says, and keeps what it was shown. */
const asking = (verdict: Verdict) => {
  const shown: Evidence[] = []
  const opening: Opening = {
    first: 'asking',
    cursor: 'wo_7',
    judge: evidence => {
      shown.push(evidence)
      return verdict
    },
  }
  return { shown, story: open('events-ws', {}, undefined, opening) }
}

test('a proven connection hands on what is new alone, and not what could not be read among the rest', async () => {
  const { shown, story } = asking({ verdict: 'proven', firstNew: 2 })
  wire = await server.accepted()
  expect(wire.request.url).toBe('/v1/workers/1/events/ws?cursor=wo_7')
  wire.ws.send(snapshot())
  await wire.nextPing()
  wire.ws.send(numbered(delta('known 1')))
  wire.ws.send('unreadable, and known')
  wire.ws.send(numbered(delta('known 2')))
  wire.ws.send('unreadable')
  wire.ws.send(numbered(delta('new')))
  wire.pong()
  await story.until(3)
  expect(story.told).toEqual(['begin snapshot:wo_0', 'reject malformed', 'text_delta new'])
  expect(story.verdicts).toEqual(['proven'])
  expect(story.followed).toEqual([true])
  expect(shown).toMatchObject([{ snapshot: { eventId: 'snapshot:wo_0' }, diagnostic: null }])
  expect(shown[0]?.held.map(nameOf)).toEqual(['text_delta known 1', 'text_delta known 2', 'text_delta new'])
})

test('a proven connection of which all is known is not followed by anything', async () => {
  const { story } = asking({ verdict: 'proven', firstNew: 1 })
  wire = await server.accepted()
  wire.ws.send(snapshot())
  await wire.nextPing()
  wire.ws.send(numbered(delta('known')))
  wire.pong()
  await story.until(1)
  expect(story.followed).toEqual([false])
  expect(story.told).toEqual(['begin snapshot:wo_0'])
})

const overAtOnce: readonly [Verdict, string][] = [
  [{ verdict: 'not_proven', reason: 'upstream_gap' }, 'not_proven'],
  [{ verdict: 'retry_from_zero' }, 'ask_from_zero'],
]

test.each(overAtOnce)('a connection that is not proven is over at once (%o)', async (verdict, code) => {
  const { story } = asking(verdict)
  wire = await server.accepted()
  wire.ws.send(snapshot())
  await wire.nextPing()
  wire.ws.send(numbered(delta('held')))
  wire.pong()
  expect(await story.connection.ended).toEqual({ code, opened: true, believedAt: null, verdict })
  expect(story.told).toEqual([])
})

test('a diagnostic before the fence is evidence, be it in the place of the snapshot', async () => {
  for (const first of [true, false]) {
    const { shown, story } = asking({ verdict: 'retry_from_zero' })
    wire = await server.accepted()
    if (!first) wire.ws.send(snapshot())
    wire.ws.send(diagnostic('cursor_malformed'))
    expect(await story.connection.ended).toMatchObject({ code: 'ask_from_zero' })
    expect(shown).toMatchObject([
      { diagnostic: 'runtime.cursor_malformed', snapshot: first ? null : { eventId: 'snapshot:wo_0' } },
    ])
  }
})

test('a proven connection that is ended by a diagnostic later ends as any other', async () => {
  const { story } = asking({ verdict: 'proven', firstNew: 0 })
  wire = await server.accepted()
  wire.ws.send(snapshot())
  await wire.nextPing()
  wire.pong()
  await story.until(1)
  wire.ws.send(diagnostic('cursor_expired'))
  expect(await story.connection.ended).toMatchObject({ code: 'overrun', believedAt: expect.any(Number) })
})

test('one that ends before its fence without a word was not judged', async () => {
  const { shown, story } = asking({ verdict: 'proven', firstNew: 0 })
  wire = await server.accepted()
  wire.ws.send(snapshot())
  await wire.nextPing()
  wire.ws.terminate()
  expect(await story.connection.ended).toMatchObject({ code: 'closed', verdict: null })
  expect(shown).toEqual([])
})

test('a judge who fails costs the connection', async () => {
  const story = open('events-ws', {}, undefined, {
    first: 'opening',
    judge: () => {
      throw new Error('the journal is away')
    },
  })
  wire = await server.accepted()
  wire.ws.send(snapshot())
  await wire.nextPing()
  wire.pong()
  expect(await story.connection.ended).toMatchObject({ code: 'not_taken', verdict: null })
})

test('a glance shows its snapshot and is over, without a ping', async () => {
  const shown: Envelope[] = []
  const story = open(
    'protocol-ws',
    {},
    undefined,
    glance(it => shown.push(it)),
  )
  wire = await server.accepted()
  wire.ws.on('ping', () => story.told.push('ping'))
  wire.ws.send(snapshotPayload())
  wire.ws.send(delta('a'))
  expect(await story.connection.ended).toMatchObject({ code: 'glanced', believedAt: null })
  await wire.gone
  expect(shown.map(({ payload }) => payload)).toEqual([snapshotPayload()])
  expect(story.told).toEqual([])
})

test('a fence after belief is passed by its pong, and not by a late one or the end', async () => {
  const story = await believed()
  const passed = story.connection.fence()
  await wire.nextPing()
  wire.ws.send(numbered(delta('written before')))
  wire.pong()
  expect(await passed).toBe(true)
  expect(story.told).toContain('text_delta written before')
  const late = story.connection.fence()
  await wire.nextPing()
  await clock.advance(LIMITS.fenceMs)
  expect(await late).toBe(false)
  const over = story.connection.fence()
  story.connection.end('left')
  expect(await over).toBe(false)
  expect(await story.connection.fence()).toBe(false)
})

test('the stand-in of a stopped worker is told as one', async () => {
  const story = open()
  wire = await server.accepted()
  wire.ws.send(snapshot('worker-runtime'))
  await wire.nextPing()
  wire.pong()
  expect(await story.connection.ended).toMatchObject({
    code: 'stand_in',
    believedAt: null,
    verdict: { verdict: 'stand_in' },
  })
  expect(story.told).toEqual([])
})

const internal = (message: string) => `{"event":"error","data":{"code":"internal","message":"${message}"}}`

test('in protocol-ws an error that the end follows is the connection’s and not told', async () => {
  const story = await believed('protocol-ws')
  wire.ws.send(delta('a'))
  wire.ws.send(internal('runtime observation backlog was overrun'))
  wire.ws.terminate()
  expect(await story.connection.ended).toMatchObject({ code: 'dismissed' })
  expect(story.told).toEqual(['begin c:1', 'text_delta a'])
})

test('in protocol-ws an error that an event follows, or that stands for a while, is the worker’s', async () => {
  const story = await believed('protocol-ws')
  wire.ws.send(internal('Cancelled'))
  wire.ws.send('{"event":"status","data":{"status":"idle"}}')
  await story.until(3)
  expect(story.told.slice(1)).toEqual(['error Cancelled', 'status'])
  expect(story.accepted.map(({ eventId }) => eventId)).toEqual(['c:2', 'c:3'])
  wire.ws.send(internal('again'))
  await clock.waiting(ms => ms === LIMITS.errorHoldMs)
  expect(story.told).toHaveLength(3)
  await clock.advance(LIMITS.errorHoldMs)
  expect(story.told[3]).toBe('error again')
  wire.ws.send('{"event":"error","data":{"code":"provider_error","message":"p"}}')
  await story.until(5)
})

test('an error that is held when we end the connection is still told', async () => {
  const story = await believed('protocol-ws')
  wire.ws.send(internal('Cancelled'))
  await clock.waiting(ms => ms === LIMITS.errorHoldMs)
  story.connection.end('left')
  expect(story.told[1]).toBe('error Cancelled')
  expect(await story.connection.ended).toMatchObject({ code: 'left' })
})

test('in events-ws errors are told at once: the end has a frame of its own there', async () => {
  const story = await believed()
  wire.ws.send(numbered(internal('Cancelled')))
  await story.until(2)
  expect(story.told[1]).toBe('error Cancelled')
})

test('nothing is sent but pings', async () => {
  const sent: string[] = []
  const story = open()
  wire = await server.accepted()
  wire.ws.on('message', data => sent.push(String(data)))
  wire.ws.send(snapshot())
  await wire.nextPing()
  wire.pong()
  await story.until(1)
  await clock.advance(LIMITS.pingAfterMs)
  await wire.nextPing()
  story.connection.end('left')
  await wire.gone
  expect(sent).toEqual([])
})
