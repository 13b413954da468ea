import { expect, test } from 'vitest'
import { loadRecording, recordingNames } from '../../embedded-runtime/recording.ts'
import type { Dialect } from '../source.ts'
import { eventHint, type FrameOrigin, readFrame, type WireFrame } from './envelope.ts'

const origin = (dialect: Dialect, worker = '1'): FrameOrigin => ({ dialect, worker, connection: 'c1' })
const events = origin('events-ws')

const frame = (payload: string, more: { worker?: string; tail?: string } = {}) =>
  `{"kind":"event","envelope":{"cursor":"wo_00000000000000a1","event_id":"wo_00000000000000a1","worker_id":${
    more.worker ?? '1'
  },"payload":${payload}${more.tail ?? ''}}}`

const read = (text: string, from: FrameOrigin = events): WireFrame => readFrame(text, from, 7, 1_000)

const payloadOf = (wire: WireFrame): string => {
  if (wire.kind !== 'event') throw new Error(`not an event: ${JSON.stringify(wire)}`)
  return wire.envelope.payload
}

const malformed = { kind: 'unreadable', cause: 'malformed' }

test('an envelope gives its ids, its event and its payload to the byte', () => {
  const payload = '{"event":"text_delta","data":{"text":"a\\u0062  }} "}}'
  expect(read(frame(payload))).toEqual({
    kind: 'event',
    event: 'text_delta',
    envelope: {
      cursor: 'wo_00000000000000a1',
      eventId: 'wo_00000000000000a1',
      payload,
      parsed: { event: 'text_delta', data: { text: 'ab  }} ' } },
      time: 1_000,
    },
  })
})

test.each([
  [
    'spaces and line breaks',
    ` {\n "kind" : "event", "envelope" : { "cursor":"wo_1" ,"event_id": "wo_1","worker_id" :1, "payload" : {"event":"shutdown"} } } `,
  ],
  [
    'another order of keys',
    '{"envelope":{"payload":{"event":"shutdown"},"worker_id":1,"event_id":"wo_1","cursor":"wo_1"},"kind":"event"}',
  ],
  [
    'fields added behind the payload',
    '{"kind":"event","envelope":{"cursor":"wo_1","event_id":"wo_1","worker_id":1,"payload":{"event":"shutdown"},"added":{"x":[1]}}}',
  ],
  [
    'fields added behind the envelope',
    '{"kind":"event","envelope":{"cursor":"wo_1","event_id":"wo_1","worker_id":1,"payload":{"event":"shutdown"}},"added":"}}"}',
  ],
  [
    'escapes in a key',
    '{"kind":"event","envelope":{"cursor":"wo_1","event_id":"wo_1","worker_id":1,"pay\\u006coad":{"event":"shutdown"}}}',
  ],
  [
    'no cursor',
    '{"kind":"event","envelope":{"event_id":"wo_1","worker_id":1,"payload":{"event":"shutdown"}}}',
  ],
])('an envelope is read with %s', (_what, text) => {
  expect(payloadOf(read(text))).toBe('{"event":"shutdown"}')
})

test('a worker id is the same as a number and as a string, up to the largest of 64 bits', () => {
  expect(read(frame('{"event":"shutdown"}', { worker: '"1"' })).kind).toBe('event')
  const large = origin('events-ws', '18446744073709551615')
  expect(read(frame('{"event":"shutdown"}', { worker: '18446744073709551615' }), large).kind).toBe('event')
  expect(
    read(frame('{"event":"shutdown"}', { worker: '18446744073709551614', tail: ',"x":1' }), large),
  ).toEqual({
    kind: 'unreadable',
    cause: 'foreign_worker',
  })
})

test('a frame that names another worker is foreign', () => {
  expect(read(frame('{"event":"shutdown"}', { worker: '2' }))).toEqual({
    kind: 'unreadable',
    cause: 'foreign_worker',
  })
})

test('a diagnostic gives its code', () => {
  expect(read('{"kind":"diagnostic","diagnostic":{"code":"runtime.cursor_expired","message":"m"}}')).toEqual({
    kind: 'diagnostic',
    code: 'runtime.cursor_expired',
  })
})

test.each([
  ['text that is no JSON', 'hello'],
  ['a frame that is cut', frame('{"event":"shutdown"}').slice(0, -3)],
  ['a payload that is no JSON', frame('{"event":"text_delta","data":{"text":"\u0001"}}')],
  ['a payload that is no object', frame('["event"]')],
  ['an event without a name', frame('{"data":{}}')],
  ['a name that is no text', frame('{"event":1}')],
  ['a name of our own entries', frame('{"event":"shoji.gap"}')],
  ['a name without end', frame(`{"event":"${'x'.repeat(200)}"}`)],
  [
    'an envelope without an event id',
    '{"kind":"event","envelope":{"worker_id":1,"payload":{"event":"shutdown"}}}',
  ],
  [
    'an envelope without a worker',
    '{"kind":"event","envelope":{"event_id":"a","payload":{"event":"shutdown"}}}',
  ],
  ['a kind that nobody knows', '{"kind":"news"}'],
  ['braces that only seem to close', `${frame('{"event":"shutdown"}')}}}`],
  ['an array', '[]'],
  ['nothing', ''],
])('%s is malformed', (_what, text) => {
  expect(read(text)).toEqual(malformed)
})

test('numbers beyond 2^53 are exact in what is parsed and untouched in the text', () => {
  const payload = '{"event":"usage","data":{"input_tokens":9007199254740993}}'
  const wire = read(frame(payload))
  expect(wire).toMatchObject({
    envelope: { payload, parsed: { data: { input_tokens: 9_007_199_254_740_993n } } },
  })
})

test('a deep nest neither throws nor takes the process down', () => {
  const deep = `${'['.repeat(200_000)}1234567890123456789${']'.repeat(200_000)}`
  expect(['event', 'unreadable']).toContain(read(frame(`{"event":"x","data":${deep}}`)).kind)
})

test('a bare event is its own payload, and its id is made of connection and place', () => {
  const text = '{"event":"text_delta","data":{"text":"a"}}'
  expect(read(text, origin('protocol-ws'))).toMatchObject({
    kind: 'event',
    event: 'text_delta',
    envelope: { eventId: 'c1:7', payload: text },
  })
  expect(read(text, { ...origin('protocol-ws'), connection: 'c2' })).toMatchObject({
    envelope: { eventId: 'c2:7' },
  })
  expect(read('{"kind":"event"}', origin('protocol-ws'))).toEqual(malformed)
})

test('the name of an event is told from its first bytes in both dialects', () => {
  expect(eventHint(frame('{"event":"text_delta","data":{'))).toBe('text_delta')
  expect(eventHint('{"event":"snapshot","data":{')).toBe('snapshot')
  expect(eventHint('{"kind":"event","envelope":{"payload"')).toBeUndefined()
})

const folder = 'test/recordings'
const names = await recordingNames(folder)

test('there are recordings of both generations', () => {
  expect(names.length).toBeGreaterThan(60)
})

test.each(names)('every frame of %s is read, none goes into quarantine', async name => {
  const recording = await loadRecording(folder, name)
  for (const connection of recording.connections) {
    const dialect = connection.route === 'events' ? 'events-ws' : 'protocol-ws'
    const worker = /^0*\d+$/.test(connection.workerId)
      ? String(BigInt(connection.workerId))
      : connection.workerId
    const from = { dialect, worker, connection: 'c' } as const
    for (const [position, { fromRuntime, kind, text }] of connection.frames.entries()) {
      if (!fromRuntime || kind !== 'text') continue
      const wire = readFrame(text, from, position, 0)
      if (wire.kind === 'unreadable') throw new Error(`${wire.cause}: ${text.slice(0, 200)}`)
      if (wire.kind !== 'event') continue
      expect(text).toContain(wire.envelope.payload)
      expect(JSON.parse(wire.envelope.payload)).toEqual(
        dialect === 'events-ws' ? JSON.parse(text).envelope.payload : JSON.parse(text),
      )
    }
  }
})
