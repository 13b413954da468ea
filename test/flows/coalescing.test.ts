import { type ClientState, type Frame, reduce } from '@shoji/web-contract'
import { expect, it } from 'vitest'
import type { JsonObject } from '../../src/embedded-runtime/json.ts'
import { scriptedAgent } from '../../src/embedded-runtime/scripted-agent.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'
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

/** Replays everything behind a position to a viewer who stood there. */
async function replayed(
  flow: Flow,
  from: { position: string | null; state: ClientState },
): Promise<TestStream> {
  const stream = await flow.open({ lastEventId: from.position! }, from.state)
  await stream.untilLive()
  stream.cut()
  expect(outcomeOf(stream)).toBe('resumed')
  return stream
}

/** The same three ways to the same state: live, by replay, and by a fresh snapshot. */
async function sameOnAllRoads(flow: Flow, live: TestStream, start: ClientState): Promise<TestStream> {
  const replay = await replayed(flow, { position: start.position, state: start })
  const fresh = await flow.open()
  await fresh.untilLive()
  fresh.cut()
  expect(stateOf(replay.state, flow.worker)).toEqual(stateOf(live.state, flow.worker))
  expect(stateOf(fresh.state, flow.worker)).toEqual(stateOf(live.state, flow.worker))
  return replay
}

it('case 19: coalescing never crosses the end of a text', async () => {
  await using flow = await startFlow()
  const { worker } = flow
  using live = await flow.open()
  await live.untilLive()
  const start = live.state
  done(worker, 'a')
  delta(worker, 'b')
  done(worker, 'ab')
  delta(worker, 'c')
  await live.until(saw(worker, 'c'), 'all')
  expect(textsOf(live.state, worker)).toEqual(['a', 'ab', 'c'])
  const replay = await sameOnAllRoads(flow, live, start)
  expect(said(replay.frames)).toEqual(['a', 'ab', 'c'])
})

it('case 19: coalescing never crosses a snapshot', async () => {
  await using flow = await startFlow()
  const { worker } = flow
  using live = await flow.open()
  await live.untilLive()
  const start = live.state
  delta(worker, 'be')
  delta(worker, 'fore')
  await live.until(saw(worker, 'before'), 'the first text')
  // The connection upstream is lost: its successor begins with a snapshot.
  for (const observer of [...worker.observers]) observer.destroy()
  await live.untilFrame('snapshot', 2)
  delta(worker, 'af')
  delta(worker, 'ter')
  await live.until(s => textsOf(s.state, worker).at(-1)?.endsWith('after') === true, 'the second text')
  const replay = await replayed(flow, { position: start.position, state: start })
  expect(stateOf(replay.state, worker)).toEqual(stateOf(live.state, worker))
  expect(replay.frames.map(f => (f.event === 'envelope' ? f.data.data.text : f.event))).toEqual([
    'hello',
    'before',
    'reset',
    'snapshot',
    'caught_up',
    'after',
    'caught_up',
  ])
})

it('case 20: equal and overlapping deltas are joined verbatim', async () => {
  await using flow = await startFlow()
  const { worker } = flow
  using live = await flow.open()
  await live.untilLive()
  const start = live.state
  for (const text of ['aa', 'aa', 'B', 'Bonus', 'aa']) delta(worker, text)
  await live.until(saw(worker, 'aaaaBBonusaa'), 'all')
  const replay = await sameOnAllRoads(flow, live, start)
  expect(said(replay.frames)).toEqual(['aaaaBBonusaa'])
})

it('case 20: a resume between equal deltas brings the second one alone', async () => {
  await using flow = await startFlow()
  const { worker } = flow
  const first = await flow.open()
  await first.untilLive()
  delta(worker, 'aa')
  await first.until(saw(worker, 'aa'), 'the first')
  first.cut()
  delta(worker, 'aa')
  using second = await flow.open({ lastEventId: first.position! }, first.state)
  await second.until(saw(worker, 'aaaa'), 'the second')
  expect(said(second.frames)).toEqual(['aa'])
})

it('case 22: deltas without their start are shown, live and replayed', async () => {
  await using flow = await startFlow()
  const { worker } = flow
  using live = await flow.open()
  await live.untilLive()
  const start = live.state
  worker.emit({ event: 'thinking_delta', data: { text: 'no start' } })
  worker.emit({ event: 'tool_call_args_delta', data: { id: 'call_1', arguments_delta: '{' } })
  worker.emit({
    event: 'tool_result',
    data: { id: 'call_2', summary: 'done', output: 'out', is_error: false },
  })
  worker.emit({
    event: 'command',
    data: {
      event: {
        kind: 'output',
        command_id: 'command-1',
        stream: 'stdout',
        content: 'said',
        start_offset: 0,
        end_offset: 4,
      },
    },
  })
  done(worker, 'a text that never began')
  await live.until(saw(worker, 'a text that never began'), 'the last')
  await sameOnAllRoads(flow, live, start)
  const { items } = stateOf(live.state, worker)
  expect(items.map(item => item.kind)).toEqual(expect.arrayContaining(['thinking', 'tool_call', 'text']))
  expect(JSON.stringify(items)).toContain('no start')
  expect(JSON.stringify(items)).toContain('said')
  expect(JSON.stringify(items)).toContain('"out"')
})

/** A session with an error, an aborted run, a call without its result, and a second run. */
function troubled(worker: EmbeddedWorker): void {
  const emit = (event: string, data: JsonObject = {}) => void worker.emit({ event, data })
  tell(worker, 'first run')
  emit('status', { status: 'running' })
  emit('turn_start', { turn: 1 })
  emit('thinking_start')
  emit('thinking_delta', { text: 'hm' })
  emit('error', { code: 'internal', message: 'it broke' })
  emit('run_end', { result: 'error' })
  emit('status', { status: 'idle' })
  tell(worker, 'aborted run')
  emit('status', { status: 'running' })
  emit('turn_start', { turn: 2 })
  delta(worker, 'half a ')
  emit('tool_call_start', { id: 'call_1', name: 'Bash' })
  emit('tool_call_args_delta', { id: 'call_1', arguments_delta: '{"command":' })
  emit('run_end', { result: 'cancelled' })
  emit('status', { status: 'idle' })
  tell(worker, 'second run')
  emit('status', { status: 'running' })
  emit('turn_start', { turn: 3 })
  delta(worker, 'all ')
  delta(worker, 'well')
  done(worker, 'all well')
  emit('turn_end', { turn: 3, result: 'finished' })
  emit('run_end', { result: 'finished' })
  emit('status', { status: 'idle' })
}

it('case 21: a journal with an error, an aborted run, an unfinished call and a second run replays', async () => {
  await using flow = await startFlow()
  const { worker } = flow
  using live = await flow.open()
  await live.untilLive()
  const start = live.state
  troubled(worker)
  await live.untilEnvelope('run_end', 3)
  await live.until(s => stateOf(s.state, worker).status === 'idle', 'idle')
  await sameOnAllRoads(flow, live, start)
  const state = stateOf(live.state, worker)
  expect(state.open).toEqual({ blocks: [], calls: [] })
  expect(state.items.map(item => item.kind)).toEqual([
    'user_message',
    'thinking',
    'error',
    'user_message',
    'text',
    'tool_call',
    'user_message',
    'text',
  ])
})

it('case 18: a frame that is applied twice changes nothing the second time', async () => {
  await using flow = await startFlow()
  using live = await flow.open()
  await live.untilLive()
  troubled(flow.worker)
  await live.untilEnvelope('run_end', 3)
  const twice = (state: ClientState, frame: Frame): ClientState => {
    const once = reduce(state, frame)
    expect(reduce(once, frame)).toEqual(once)
    return once
  }
  const start: ClientState = { ...live.state, workers: {}, position: null }
  const state = live.frames.reduce(twice, start)
  expect(stateOf(state, flow.worker)).toEqual(stateOf(live.state, flow.worker))
})

const SESSION = 'scenario:tools please'

async function ask(flow: Flow, content: string): Promise<void> {
  const answer = await fetch(`${flow.at()}/commands`, {
    method: 'POST',
    headers: { ...bearer('admin'), 'content-type': 'application/json' },
    body: JSON.stringify({ command: 'input.user', content }),
  })
  expect(answer.status).toBe(200)
}

const ended = (flow: Flow) => (stream: TestStream) =>
  stream.state.live &&
  stateOf(stream.state, flow.worker).status === 'idle' &&
  stateOf(stream.state, flow.worker).items.length > 5

it('case 12: a session replayed and cut at every index joins to the uncut one', async () => {
  await using flow = await startFlow({ worker: { agent: scriptedAgent(), log: 'on' } })
  using live = await flow.open()
  await live.untilLive()
  const start = live.state
  await ask(flow, SESSION)
  await live.untilEnvelope('run_end')
  await live.until(ended(flow), 'the end of the run')
  const whole = await replayed(flow, { position: start.position, state: start })
  expect(stateOf(whole.state, flow.worker)).toEqual(stateOf(live.state, flow.worker))
  const { length } = whole.frames
  expect(length).toBeGreaterThan(25)
  for (let frames = 1; frames <= length; frames++) {
    const first = await flow.open({ lastEventId: start.position!, maxFrames: frames }, start)
    await first.untilEnded()
    const second = await replayed(flow, first)
    expect(stateOf(second.state, flow.worker), `cut behind frame ${frames}`).toEqual(
      stateOf(live.state, flow.worker),
    )
  }
})

it('case 12: viewers of a live session, each cut behind another frame of it, all end in the uncut state', async () => {
  await using flow = await startFlow({
    worker: { agent: scriptedAgent({ paceMs: 2 }), log: 'on' },
    extra: 'limits: { streams_per_user: 500 }',
  })
  using live = await flow.open()
  await live.untilLive()
  const viewers = Array.from({ length: 100 }, async (_, i) => {
    const first = await flow.open({ maxFrames: i + 1 })
    await first.until(s => s.ended || (s.state.live && ended(flow)(s)), 'the cut')
    first.cut()
    const { position } = first
    // Cut in the first burst there is no position yet, and so there is nothing to go on from.
    const second =
      position === null ? await flow.open() : await flow.open({ lastEventId: position }, first.state)
    await second.until(ended(flow), 'the end of the run')
    second.cut()
    return { i, second }
  })
  await ask(flow, SESSION)
  await live.untilEnvelope('run_end')
  await live.until(ended(flow), 'the end of the run')
  for (const { i, second } of await Promise.all(viewers))
    expect(stateOf(second.state, flow.worker), `cut behind frame ${i + 1}`).toEqual(
      stateOf(live.state, flow.worker),
    )
})
