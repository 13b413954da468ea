import { emptyClientState } from '@shoji/web-contract'
import { expect, it } from 'vitest'
import { delta, done, type Flow, outcomeOf, said, saw, startFlow, stateOf, tell } from '../_support/flow.ts'
import type { TestStream } from '../_support/sse.ts'

const TEN = 10

/** The workers' texts interleaved in the journal, piece by piece: each round is seen before the next is told. */
async function interleave(flow: Flow, witness: TestStream): Promise<void> {
  const round = async (say: (worker: Flow['worker']) => void): Promise<void> => {
    const before = said(witness.frames).length
    for (const worker of flow.workers) say(worker)
    await witness.until(s => said(s.frames).length >= before + flow.workers.length, 'the round')
  }
  await round(worker => tell(worker, `begin ${worker.id}`))
  for (let i = 0; i < 4; i++) await round(worker => delta(worker, `${i}`))
  await round(worker => done(worker, '0123'))
  for (let i = 0; i < 3; i++) await round(worker => delta(worker, `${'abc'[i]}`))
  await round(worker => tell(worker, `end ${worker.id}`))
}

const complete = (flow: Flow) => (stream: TestStream) =>
  stream.state.live && flow.workers.every(worker => saw(worker, `end ${worker.id}`)(stream))

const statesOf = (flow: Flow, stream: TestStream) => flow.workers.map(worker => stateOf(stream.state, worker))

it('case 82: ten workers on one fresh stream, cut after every frame of the burst, end in the uncut state', async () => {
  await using flow = await startFlow({ workers: TEN })
  const url = `${flow.shoji.url}/api/runtimes/rt/events`
  using uncut = await flow.open({ url })
  await uncut.untilLive()
  await interleave(flow, uncut)
  await uncut.until(complete(flow), 'all ten')
  const fresh = await flow.open({ url })
  await fresh.untilLive()
  expect(fresh.frames.map(f => f.event)).toEqual(['hello', ...Array(TEN).fill('snapshot'), 'caught_up'])
  expect(fresh.frames.slice(0, -1).every(f => f.id === undefined)).toBe(true)
  fresh.cut()
  for (let frames = 1; frames <= TEN + 2; frames++) {
    const first = await flow.open({ url, maxFrames: frames })
    await first.untilEnded()
    const { position } = first
    expect(position === null).toBe(frames < TEN + 2)
    using second = await flow.open(
      { url, ...(position !== null && { lastEventId: position }) },
      position === null ? emptyClientState() : first.state,
    )
    await second.until(complete(flow), 'all ten')
    expect(statesOf(flow, second)).toEqual(statesOf(flow, uncut))
  }
})

it('case 82: ten interleaved workers replayed and cut after every frame lose nothing and double nothing', async () => {
  await using flow = await startFlow({ workers: TEN })
  const url = `${flow.shoji.url}/api/runtimes/rt/events`
  using uncut = await flow.open({ url })
  await uncut.untilLive()
  const start = uncut.state
  await interleave(flow, uncut)
  await uncut.until(complete(flow), 'all ten')
  const replay = await flow.open({ url, lastEventId: start.position! }, start)
  await replay.until(complete(flow), 'all ten')
  replay.cut()
  expect(statesOf(flow, replay)).toEqual(statesOf(flow, uncut))
  const total = replay.frames.length
  for (let frames = 1; frames < total; frames++) {
    const first = await flow.open({ url, lastEventId: start.position!, maxFrames: frames }, start)
    await first.untilEnded()
    using second = await flow.open({ url, lastEventId: first.position! }, first.state)
    await second.until(complete(flow), 'all ten')
    expect(outcomeOf(second)).toBe('resumed')
    expect(statesOf(flow, second), `cut after ${frames} frames`).toEqual(statesOf(flow, uncut))
  }
})

it('case 82: a client that is cut after every single frame of a replay still arrives', async () => {
  await using flow = await startFlow({ workers: 3 })
  const url = `${flow.shoji.url}/api/runtimes/rt/events`
  using uncut = await flow.open({ url })
  await uncut.untilLive()
  let state = uncut.state
  await interleave(flow, uncut)
  await uncut.until(complete(flow), 'all')
  const heard: string[] = []
  for (let connects = 0; ; connects++) {
    // A hello, and one frame that moves the position.
    using one = await flow.open({ url, lastEventId: state.position!, maxFrames: 2 }, state)
    await one.untilEnded()
    state = one.state
    heard.push(...said(one.frames))
    if (one.frames.at(-1)?.event === 'caught_up') break
    expect(connects).toBeLessThan(200)
  }
  expect(heard.filter(text => text.startsWith('begin'))).toHaveLength(3)
  expect(flow.workers.map(worker => stateOf(state, worker))).toEqual(statesOf(flow, uncut))
})
