import { cpSync, rmSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import type { Frame } from '@shoji/web-contract'
import { createParser } from 'eventsource-parser'
import { expect, it } from 'vitest'
import { formatCursor } from '../../src/embedded-runtime/cursor.ts'
import {
  bearer,
  delta,
  done,
  type Flow,
  outcomeOf,
  said,
  saw,
  startFlow,
  stateOf,
  tell,
  textsOf,
} from '../_support/flow.ts'
import type { TestStream } from '../_support/sse.ts'

/** An event that a viewer with every right sees and that makes no state grow. */
const count = (flow: Flow, n: number): void =>
  void flow.worker.emit({ event: 'usage', data: { input_tokens: n, output_tokens: 0 } })

const counted = (stream: TestStream): number[] =>
  stream.frames.flatMap(f =>
    f.event === 'envelope' && f.data.event === 'usage' ? [Number(f.data.data.input_tokens)] : [],
  )

const idOf = (stream: TestStream, n: number): string =>
  stream.frames.find(f => f.event === 'envelope' && f.data.data.input_tokens === n)!.id!

/** Emits in portions, each seen before the next: the viewer stays at the head, so that each entry has its id. */
async function countTo(flow: Flow, stream: TestStream, from: number, to: number): Promise<void> {
  for (let n = from; n < to; ) {
    for (const end = Math.min(to, n + 500); n < end; n++) count(flow, n)
    await stream.until(s => counted(s).at(-1) === n - 1, `${n} entries`)
  }
}

const upTo = (n: number, from = 0): number[] => Array.from({ length: n - from }, (_, i) => from + i)

it('case 1: of 20,000 stored entries a resume at the 19,990th brings exactly the last ten, no slower than from few', async () => {
  await using flow = await startFlow()
  using stream = await flow.open({ timeoutMs: 60_000 })
  await stream.untilLive()
  const resumeAt = async (n: number, last: number): Promise<number> => {
    const began = performance.now()
    using resumed = await flow.open({ lastEventId: idOf(stream, n) })
    await resumed.untilLive()
    const tookMs = performance.now() - began
    expect(outcomeOf(resumed)).toBe('resumed')
    expect(counted(resumed)).toEqual(upTo(last, n + 1))
    return tookMs
  }
  const median = async (n: number, last: number): Promise<number> => {
    const took: number[] = []
    for (let i = 0; i < 9; i++) took.push(await resumeAt(n, last))
    return took.sort((a, b) => a - b)[4]!
  }
  await countTo(flow, stream, 0, 20)
  const fewMs = await median(9, 20)
  await countTo(flow, stream, 20, 20_000)
  expect(counted(stream)).toEqual(upTo(20_000))
  const manyMs = await median(19_989, 20_000)
  expect(manyMs).toBeLessThan(fewMs * 4 + 20)
})

it('case 2: an id of the right form that nobody gave out is answered with a reset and the whole state', async () => {
  await using flow = await startFlow()
  tell(flow.worker, 'hello')
  delta(flow.worker, 'half a ')
  using fresh = await flow.open()
  await fresh.until(saw(flow.worker, 'half a '), 'the text')
  using unknown = await flow.open({ lastEventId: 'AAAAAAAAAAAAAAAAAAAAAA' })
  await unknown.untilLive()
  expect(outcomeOf(unknown)).toBe('reset cursor_unknown')
  expect(unknown.frames.map(f => f.event)).toEqual(['hello', 'snapshot', 'caught_up'])
  using again = await flow.open()
  await again.untilLive()
  expect(stateOf(unknown.state, flow.worker)).toEqual(stateOf(again.state, flow.worker))
  delta(flow.worker, 'text')
  await unknown.until(saw(flow.worker, 'half a text'), 'what follows')
})

/** Reads a stream one frame a millisecond, whatever waits, until a frame satisfies `last`. */
async function readSlowly(url: string, lastEventId: string, last: (frame: Frame) => boolean) {
  const frames: Frame[] = []
  const waiting: Frame[] = []
  const parser = createParser({
    onEvent: ({ event, id, data }) =>
      waiting.push({ event, data: JSON.parse(data), ...(id !== undefined && { id }) } as Frame),
  })
  const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) =>
    get(url, { headers: { ...bearer('admin'), 'last-event-id': lastEventId }, agent: false }, resolve).on(
      'error',
      reject,
    ),
  )
  response.setEncoding('utf8')
  for await (const chunk of response) {
    parser.feed(String(chunk))
    for (const frame of waiting.splice(0)) {
      frames.push(frame)
      if (last(frame)) {
        response.destroy()
        return frames
      }
      await new Promise(resolve => setTimeout(resolve, 1))
    }
  }
  return frames
}

it('case 3: a resume over 5,000 entries by a client that reads one frame a millisecond comes whole on one connection', async () => {
  await using flow = await startFlow()
  using stream = await flow.open({ timeoutMs: 60_000 })
  await stream.untilLive()
  const { position } = stream
  // Two KiB each, so that what is sent is far more than socket buffers hold.
  const padding = 'x'.repeat(2_000)
  for (let n = 0; n < 5_000; n++) tell(flow.worker, `${n} ${padding}`)
  await stream.until(s => said(s.frames).length === 5_000, 'all of them')
  const frames = await readSlowly(`${flow.at()}/events`, position!, f => f.event === 'caught_up')
  const texts = said(frames).map(text => Number(text.split(' ')[0]))
  expect(texts).toEqual(upTo(5_000))
  expect(frames.filter(f => f.event !== 'envelope').map(f => f.event)).toEqual(['hello', 'caught_up'])
})

it('case 6: a viewer who joins fifty entries behind gets its fifty, and the one at the head nothing twice', async () => {
  await using flow = await startFlow()
  using head = await flow.open()
  await head.untilLive()
  await countTo(flow, head, 0, 100)
  const at = idOf(head, 49)
  const behind = flow.open({ lastEventId: at })
  // Entries come in while the other one joins.
  for (let n = 100; n < 200; n++) {
    count(flow, n)
    if (n % 5 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  using joined = await behind
  await joined.until(s => counted(s).at(-1) === 199, 'the newest')
  await head.until(s => counted(s).at(-1) === 199, 'the newest')
  expect(counted(joined)).toEqual(upTo(200, 50))
  expect(counted(head)).toEqual(upTo(200))
})

it('case 7: entries that a view hides leave holes in the sequence that cause neither a reset nor a stall', async () => {
  await using flow = await startFlow()
  const guest = await flow.open({ user: 'guest' })
  await guest.untilLive()
  for (let n = 0; n < 300; n++) count(flow, n)
  tell(flow.worker, 'one')
  for (let n = 300; n < 600; n++) count(flow, n)
  await guest.until(saw(flow.worker, 'one'), 'what is shown')
  guest.cut()
  tell(flow.worker, 'two')
  using resumed = await flow.open({ user: 'guest', lastEventId: guest.position! }, guest.state)
  await resumed.untilLive()
  await resumed.until(saw(flow.worker, 'two'), 'what was missed')
  expect(outcomeOf(resumed)).toBe('resumed')
  expect(said(resumed.frames)).toEqual(['two'])
  expect([...guest.frames, ...resumed.frames].some(f => f.event === 'reset')).toBe(false)
})

/** Tells an event again under its old id, when ingest has forgotten it and the journal alone still knows. */
function repeatOld(flow: Flow, position: number): void {
  const frame = {
    cursor: formatCursor(position),
    event_id: formatCursor(position),
    worker_id: Number(flow.worker.id),
    payload: { event: 'usage', data: { input_tokens: -1, output_tokens: 0 } },
  }
  flow.worker.sendRaw(JSON.stringify({ kind: 'event', envelope: frame }))
}

it('case 7: a repetition that the journal drops leaves a hole over which viewers go on and resume', async () => {
  await using flow = await startFlow()
  using stream = await flow.open({ timeoutMs: 60_000 })
  await stream.untilLive()
  const first = flow.worker.emit({ event: 'usage', data: { input_tokens: 0, output_tokens: 0 } })!
  await countTo(flow, stream, 1, 2_500)
  repeatOld(flow, first)
  count(flow, 2_500)
  await stream.until(s => counted(s).at(-1) === 2_500, 'what follows the hole')
  expect(counted(stream)).toEqual(upTo(2_501))
  using resumed = await flow.open({ lastEventId: idOf(stream, 2_498) })
  await resumed.untilLive()
  expect([outcomeOf(resumed), counted(resumed)]).toEqual(['resumed', [2_499, 2_500]])
})

it('case 7: a viewer who comes right after a repetition that was dropped gets its snapshot and follows', async () => {
  await using flow = await startFlow()
  using stream = await flow.open({ timeoutMs: 60_000 })
  await stream.untilLive()
  const first = flow.worker.emit({ event: 'usage', data: { input_tokens: 0, output_tokens: 0 } })!
  await countTo(flow, stream, 1, 2_500)
  repeatOld(flow, first)
  // Nobody can see it come in, so many come: some before it, the rest behind it.
  for (let i = 0; i < 50; i++) {
    using one = await flow.open()
    await one.untilLive()
  }
  using fresh = await flow.open()
  await fresh.untilLive()
  count(flow, 2_500)
  await fresh.until(s => counted(s).includes(2_500), 'what follows')
})

it('case 8: a cursor of a journal that was replaced is refused although the new one has passed its number', async () => {
  await using flow = await startFlow()
  const stream = await flow.open()
  await stream.untilLive()
  await countTo(flow, stream, 0, 20)
  const old = idOf(stream, 10)
  stream.cut()
  await flow.restart({}, () => rmSync(join(flow.shoji.directory, 'data'), { recursive: true }))
  using witness = await flow.open()
  await witness.untilLive()
  await countTo(flow, witness, 100, 200)
  using resumed = await flow.open({ lastEventId: old })
  await resumed.untilLive()
  expect(outcomeOf(resumed)).toBe('reset cursor_unknown')
  expect(counted(resumed)).toEqual([])
})

it('case 8: a cursor from after a backup that was put back is refused, one from before it is good', async () => {
  await using flow = await startFlow()
  const data = join(flow.shoji.directory, 'data')
  const backup = join(flow.shoji.directory, 'backup')
  const first = await flow.open()
  await first.untilLive()
  await countTo(flow, first, 0, 10)
  const before = idOf(first, 5)
  first.cut()
  await flow.restart({}, () => cpSync(data, backup, { recursive: true }))
  const second = await flow.open()
  await second.untilLive()
  await countTo(flow, second, 10, 20)
  const after = idOf(second, 15)
  second.cut()
  await flow.restart({}, () => {
    rmSync(data, { recursive: true })
    cpSync(backup, data, { recursive: true })
  })
  using witness = await flow.open()
  await witness.untilLive()
  await countTo(flow, witness, 20, 60)
  using lost = await flow.open({ lastEventId: after })
  await lost.untilLive()
  expect(outcomeOf(lost)).toBe('reset cursor_unknown')
  using known = await flow.open({ lastEventId: before })
  await known.untilLive()
  expect(outcomeOf(known)).toBe('resumed')
  // What the backup lacked the Runtime still had, and the overlap proved that it belongs there.
  expect(counted(known)).toEqual(upTo(60, 6))
})

it('case 13: the bytes of a resume grow with the gap and not with the session', async () => {
  await using flow = await startFlow()
  using stream = await flow.open({ timeoutMs: 60_000 })
  await stream.untilLive()
  const bytesAfter = async (n: number, gap: number): Promise<number> => {
    using resumed = await flow.open({ lastEventId: idOf(stream, n - 1 - gap) })
    await resumed.untilLive()
    expect(counted(resumed)).toEqual(upTo(n, n - gap))
    return resumed.bytes
  }
  await countTo(flow, stream, 0, 500)
  const few = [await bytesAfter(500, 0), await bytesAfter(500, 10), await bytesAfter(500, 100)]
  await countTo(flow, stream, 500, 5_000)
  const many = [await bytesAfter(5_000, 0), await bytesAfter(5_000, 10), await bytesAfter(5_000, 100)]
  // Numbers have one digit more, and that is all.
  for (const [i, bytes] of many.entries()) expect(bytes - few[i]!).toBeLessThanOrEqual(20 + 100)
  const perEntry = (many[2]! - many[1]!) / 90
  expect(perEntry).toBeLessThan(300)
  expect(many[1]! - many[0]!).toBeLessThan(11 * 300)
})

it('case 16: cut between the last delta and the end of the run, the run ends on screen', async () => {
  await using flow = await startFlow()
  const { worker } = flow
  const stream = await flow.open()
  await stream.untilLive()
  worker.emit({ event: 'status', data: { status: 'running' } })
  worker.emit({ event: 'turn_start', data: { turn: 1 } })
  delta(worker, 'the answer')
  await stream.until(saw(worker, 'the answer'), 'the delta')
  expect(stateOf(stream.state, worker)).toMatchObject({
    status: 'running',
    open: { blocks: [{ kind: 'text' }] },
  })
  stream.cut()
  worker.emit({ event: 'turn_end', data: { turn: 1, result: 'finished' } })
  worker.emit({ event: 'run_end', data: { result: 'finished' } })
  worker.emit({ event: 'status', data: { status: 'idle' } })
  using resumed = await flow.open({ lastEventId: stream.position! }, stream.state)
  await resumed.untilEnvelope('run_end')
  await resumed.until(s => stateOf(s.state, worker).status === 'idle', 'idle')
  expect(stateOf(resumed.state, worker).open).toEqual({ blocks: [], calls: [] })
  expect(textsOf(resumed.state, worker)).toEqual(['the answer'])
})

it('case 17: a cold connect shows each item once, and nothing of the past as if it were live', async () => {
  await using flow = await startFlow()
  const { worker } = flow
  using witness = await flow.open()
  await witness.untilLive()
  for (let n = 0; n < 25; n++) {
    tell(worker, `question ${n}`)
    done(worker, `answer ${n}`)
  }
  await witness.until(saw(worker, 'answer 24'), 'fifty entries')
  using cold = await flow.open()
  await cold.untilLive()
  expect(cold.frames.map(f => f.event)).toEqual(['hello', 'snapshot', 'caught_up'])
  const state = stateOf(cold.state, worker)
  expect(textsOf(cold.state, worker)).toEqual(upTo(25).flatMap(n => [`question ${n}`, `answer ${n}`]))
  expect(new Set(state.items.map(item => item.id)).size).toBe(50)
  expect(state.open).toEqual({ blocks: [], calls: [] })
  expect(state.status).not.toBe('running')
})

it('case 23: a gap larger than the buffer of a viewer cuts nobody', async () => {
  await using flow = await startFlow({ extra: 'limits: { buffered_bytes: 768KiB, frame_bytes: 768KiB }' })
  const stream = await flow.open()
  await stream.untilLive()
  stream.cut()
  const padding = 'x'.repeat(20_000)
  for (let n = 0; n < 300; n++) tell(flow.worker, `${n} ${padding}`)
  using resumed = await flow.open({ lastEventId: stream.position!, timeoutMs: 30_000 }, stream.state)
  await resumed.until(s => said(s.frames).length === 300 && s.state.live, 'six MiB')
  expect(said(resumed.frames).map(text => Number(text.split(' ')[0]))).toEqual(upTo(300))
  tell(flow.worker, 'live')
  await resumed.until(saw(flow.worker, 'live'), 'what follows')
  expect(resumed.frames.some(f => f.event === 'reset' || f.event === 'bye')).toBe(false)
})
