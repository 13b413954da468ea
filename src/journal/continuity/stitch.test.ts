import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  loadRecording,
  payloadOf,
  type RecordedConnection,
  type Recording,
  recordingNames,
} from '../../embedded-runtime/recording.ts'
import { asRecord, asText, parseJson } from '../../lib/json.ts'
import { asSeq } from '../entry.ts'
import { expandList, type Placed, type Told } from '../expand.ts'
import { flatten, step } from '../step.ts'
import {
  close,
  dueAtMs,
  expire,
  isOver,
  type Offered,
  offer,
  openStitch,
  repeatsResult,
  type Stitch,
} from './stitch.ts'

const told = (event: string, data: Record<string, unknown> = {}): Told => ({ event, data })
const delta = (text: string): Told => told('text_delta', { text })

const open = (...blocks: object[]): Stitch => {
  const data = { entries: [], status: 'running', in_flight: { blocks } }
  const stitch = openStitch(expandList('snapshot', data, asSeq(1), { status: null }).list)
  if (stitch === null) throw new Error('nothing to stitch')
  return stitch
}
const text = (words: string, finished?: true) => ({
  kind: 'text',
  text: words,
  ...(finished && { finished }),
})
const thinking = (words: string, finished?: true) => ({ ...text(words, finished), kind: 'thinking' })

const feed = (stitch: Stitch, events: readonly Told[], nowMs = 0): Offered[] =>
  events.flatMap(event => offer(stitch, event, nowMs))

/** The text of a piece, or the event's name; `=` before what is overlap. */
const shown = (out: readonly Offered[]): string[] =>
  out.map(({ event, overlap }) => {
    const words = event.event.endsWith('_delta') ? String(event.data.text) : event.event
    return `${overlap ? '=' : ''}${words}`
  })

it('keeps the order: what comes behind held pieces waits for them', () => {
  const stitch = open(text('one two three '))
  const waiting = [
    delta('two '),
    told('usage'),
    told('internal_worker', { worker: { session_id: 's' }, event: delta('x') }),
  ]
  expect(feed(stitch, waiting)).toEqual([])
  expect(shown(feed(stitch, [delta('four ')]))).toEqual(['two ', 'usage', 'internal_worker', 'four '])
})

it('gives the verdict after the time limit, and holds nothing longer', () => {
  const stitch = open(text('one two three '))
  expect(dueAtMs(stitch)).toBeNull()
  feed(stitch, [delta('one ')], 100)
  feed(stitch, [told('usage')], 600)
  expect(dueAtMs(stitch)).toBe(1_100)
  expect(shown(expire(stitch))).toEqual(['one ', 'usage'])
  expect([dueAtMs(stitch), isOver(stitch)]).toEqual([null, true])
})

it('gives the verdict by itself if an event comes after the time limit', () => {
  const stitch = open(text('one two three '))
  feed(stitch, [delta('one ')], 100)
  expect(shown(feed(stitch, [delta('two ')], 1_100))).toEqual(['one ', 'two '])
})

it('opens nothing where no text is in flight', () => {
  const list = (data: Record<string, unknown>) =>
    expandList('snapshot', data, asSeq(1), { status: null }).list
  const entries = [
    { kind: 'assistant_item', item: { kind: 'message', role: 'assistant', content: [{ text: 'x' }] } },
  ]
  expect(openStitch(list({ entries, status: 'idle', in_flight: { blocks: [text('stale')] } }))).toBeNull()
  expect(openStitch(list({ entries, status: 'running' }))).toBeNull()
})

it('gives every event back once and in order, whatever comes', () => {
  const words = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 4 })
  const event = fc.oneof(
    { weight: 6, arbitrary: words.map(delta) },
    words.map(t => told('text_done', { text: t })),
    words.map(t => told('thinking_delta', { text: t })),
    words.map(t => told('thinking_done', { text: t })),
    fc.constantFrom('thinking_start', 'turn_start', 'usage', 'error', 'shutdown').map(name => told(name)),
    fc.constantFrom('idle', 'running').map(status => told('status', { status })),
  )
  const block = fc.oneof(
    words.map(t => text(t)),
    words.map(t => text(t, true)),
    words.map(t => thinking(t)),
    words.map(t => thinking(t, true)),
  )
  fc.assert(
    fc.property(
      fc.array(block, { maxLength: 4 }),
      fc.array(fc.tuple(event, fc.nat(400))),
      (blocks, steps) => {
        const data = { entries: [], status: 'running', in_flight: { blocks } }
        const stitch = openStitch(expandList('snapshot', data, asSeq(1), { status: null }).list)
        fc.pre(stitch !== null)
        let nowMs = 0
        const out: Offered[] = []
        for (const [each, later] of steps) {
          nowMs += later
          out.push(...offer(stitch, each, nowMs))
          expect(dueAtMs(stitch) ?? nowMs + 1).toBeGreaterThan(nowMs)
          expect(stitch.held.length).toBeLessThanOrEqual(256)
        }
        out.push(...close(stitch))
        expect(out.map(each => each.event)).toEqual(steps.map(([each]) => each))
        expect(isOver(stitch)).toBe(true)
      },
    ),
  )
})

const RECORDINGS = fileURLToPath(new URL('../../../test/recordings', import.meta.url))

interface Heard extends Told {
  readonly atMs: number
}

const heard = (connection: RecordedConnection): Heard[] =>
  connection.frames.flatMap(frame => {
    const payload = frame.fromRuntime && frame.kind === 'text' ? payloadOf(frame.text) : undefined
    if (payload === undefined) return []
    const event = asRecord(parseJson(payload))
    return [{ event: asText(event.event), data: asRecord(event.data), atMs: frame.atMs }]
  })

const expand = (snapshot: Told): ReturnType<typeof expandList> =>
  expandList('snapshot', snapshot.data, asSeq(1), { status: null })

interface InFlight {
  readonly scope: string
  readonly kind: string
  readonly text: string
}

/** The open text of each scope. */
const openTexts = (list: readonly Placed[]): InFlight[] => {
  const last = new Map(
    list
      .map(told => flatten(told.event, told.data))
      .filter(told => told.event !== 'command')
      .map(told => [told.scope, told]),
  )
  return [...last.values()].flatMap(({ event, data, scope }) =>
    event === 'text_delta' || event === 'thinking_delta'
      ? [{ scope, kind: event.slice(0, -'_delta'.length), text: asText(data.text) }]
      : [],
  )
}

const stitched = (list: readonly Placed[], after: readonly Heard[]): Offered<Heard>[] => {
  const stitch = openStitch<Heard>(list)
  if (stitch === null) return after.map(event => ({ event, overlap: false }))
  const out = after.flatMap(event => offer(stitch, event, event.atMs))
  return [...out, ...close(stitch)]
}

/** What is added to the open text, and what its done says of the whole. */
const added = (out: readonly Offered[], { scope, kind }: InFlight): { added: string; done?: string } => {
  let text = ''
  for (const { event, overlap } of out) {
    const flat = flatten(event.event, event.data)
    if (flat.scope !== scope || overlap) continue
    if (flat.event === `${kind}_delta`) text += asText(flat.data.text)
    if (flat.event === `${kind}_done`) return { added: text, done: asText(flat.data.text) }
  }
  return { added: text }
}

/** Every text that the other connections of a recording tell: whole, or by the sum of its deltas. */
const textsOf = (recording: Recording, but: RecordedConnection): string[] =>
  recording.connections
    .filter(connection => connection !== but)
    .flatMap(connection => {
      const texts: string[] = []
      const sums = new Map<string, string>()
      const told = heard(connection).flatMap((e): Told[] =>
        e.event === 'snapshot' ? [...expand(e).list] : [e],
      )
      for (const each of told) {
        const { event, data, scope } = flatten(each.event, each.data)
        const [, kind = '', part] = /^(text|thinking)_(delta|done)$/.exec(event) ?? []
        const sum = `${scope} ${kind}`
        if (part === 'delta') sums.set(sum, (sums.get(sum) ?? '') + asText(data.text))
        if (part !== 'done') continue
        sums.delete(sum)
        texts.push(asText(data.text))
      }
      return [...texts, ...sums.values()]
    })

/** Connections whose recorded events are not the stream: what is added there, and why. */
const EXCEPTIONS: Readonly<Record<string, { readonly added: RegExp; readonly because: string }>> = {
  'overlap-in-flight 4': {
    added: /^000954 xx\n001034 xx\n$/,
    because: 'the Runtime loses the 78 chunks that follow the snapshot, and most of those after them',
  },
  'ping-fence 5': {
    added: /^000722 x+\n000124 x+\n000125 x+\n000126 x+\n000127 x+\n000665 x+\n000666 x+\n000667 x+\n$/,
    because: 'asked with a cursor, so that the text of an earlier run comes first; left out by the recorder',
  },
  'later-ping-fence 7': {
    added: /^000080 x+\n000081 x+\n000366 x+\n000367 x+\n000368 x+\n$/,
    because: 'the recorder left out what lies between',
  },
  'later-ping-fence 8': {
    added: /^000761 x+\n000439 x+\n000440 x+\n000441 x+\n000442 x+\n000443 x+\n$/,
    because: 'asked with a cursor, so that the text of an earlier run comes first; left out by the recorder',
  },
}

it('goes on with every recorded text in flight as it was said, and finds all overlap and no other', async () => {
  const overlaps: Record<string, number> = {}
  const healed: string[] = []
  for (const name of await recordingNames(RECORDINGS)) {
    const recording = await loadRecording(RECORDINGS, name)
    for (const connection of recording.connections) {
      const [snapshot, ...after] = heard(connection)
      if (snapshot?.event !== 'snapshot') continue
      const where = `${name} ${connection.conn}`
      const { list } = expand(snapshot)
      const out = stitched(list, after)
      expect(
        out.map(({ event }) => event),
        where,
      ).toEqual(after)
      const count = out.filter(({ overlap }) => overlap).length
      if (count > 0) overlaps[where] = count
      for (const open of openTexts(list)) {
        const said = added(out, open)
        const whole = open.text + said.added
        if (said.done !== undefined) expect(whole, where).toBe(said.done)
        else if (EXCEPTIONS[where] !== undefined) expect(said.added, where).toMatch(EXCEPTIONS[where].added)
        else
          expect(
            said.added === '' || textsOf(recording, connection).some(text => text.startsWith(whole)),
            where,
          ).toBe(true)
        if (said.done !== undefined) healed.push(where)
      }
    }
  }
  expect(healed).toEqual(['initial-input 1', 'later-sub-worker 2', 'reconnect-good-cursor 8'])
  expect(overlaps).toEqual({
    // The `text_done` of a finished block.
    'in-flight-turns 2': 1,
    'later-ping-fence 7': 1,
    'later-sub-worker 2': 1,
    // All but what the Runtime lost on the way: it ends within the overlap, but for connection 4.
    'overlap-in-flight 2': 9,
    'overlap-in-flight 3': 5,
    'overlap-in-flight 4': 2,
    'overlap-in-flight 6': 4,
    'reconnect-good-cursor 8': 7,
    'snapshot-in-flight 4': 1,
  })
})

it.each(['snapshot-ahead', 'later-snapshot-ahead'])('%s: a result that comes again is one', async name => {
  const recording = await loadRecording(RECORDINGS, name)
  const again: Record<number, boolean[]> = {}
  for (const connection of recording.connections) {
    const [snapshot, ...after] = heard(connection)
    if (snapshot?.event !== 'snapshot') continue
    const { state } = expand(snapshot)
    again[connection.conn] = after.flatMap(({ event, data }, index) => {
      const repeats = repeatsResult(state, flatten(event, data))
      if (!repeats) step(state, event, data, { seq: asSeq(2 + index), index: 0 })
      return event === 'tool_result' ? [repeats] : []
    })
  }
  const [t, f] = [true, false]
  expect(again).toEqual(
    name === 'snapshot-ahead'
      ? { 207: [t, t, t, t, t, t, t], 208: [t, t, t, t, t, t, t], 209: [t, t, t, t, t, t, t], 314: [t] }
      : // The snapshot of 285 has one of three; of 398 one came nowhere.
        { 173: [t, t, t], 285: [t, f, f], 338: [t, t, t], 398: [f, f] },
  )
})
