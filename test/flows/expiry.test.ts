/** Cursors older than what is kept, and cursors of another view. */
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { Seq } from '../../src/journal/entry.ts'
import { openJournal } from '../../src/journal/sqlite/journal.ts'
import { done, outcomeOf, said, saw, startFlow, stateOf, tell, textsOf } from '../_support/flow.ts'
import { POLICY, TOKENS } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'
import { openStage, type Stage, type StageViewer, type StageWorker } from '../_support/stage.ts'

/** A finished run of one message: retention may cut behind it. */
const run = (worker: StageWorker, text: string): void => {
  worker.say(text)
  worker.event('run_end', {})
}

const settled = async (stage: Stage): Promise<Seq> => {
  await stage.journal.durable(stage.ingest.position)
  return stage.journal.head
}

/** Deletes what was journaled before now, as age does. The stage's clock counts envelopes. */
async function forget(stage: Stage, keep: { readonly from: number }): Promise<void> {
  const { deleted } = await stage.journal.retain({ maxAgeMs: 0 }, keep.from)
  expect(deleted).toBeGreaterThan(0)
}

const timeOf = (viewer: StageViewer, text: string): number => {
  const frame = viewer.frames.find(
    f => f.event === 'envelope' && JSON.stringify(f.data).includes(`"${text}"`),
  )
  return frame?.event === 'envelope' ? frame.data.time : Number.NaN
}

const outline = (viewer: { readonly frames: StageViewer['frames'] }): string[] =>
  viewer.frames.map(frame => {
    if (frame.event === 'envelope') return said([frame])[0]!
    if (frame.event === 'reset') return `reset ${frame.data.worker} ${frame.data.reason}`
    if (frame.event === 'snapshot') return `snapshot ${frame.data.worker} of ${frame.data.state.items.length}`
    return frame.event
  })

it('resets the one worker of which the cursor is older than what is kept, and resumes the others', async () => {
  await using stage = await openStage()
  const old = await stage.worker('old')
  const other = await stage.worker('other')
  const cursor = await settled(stage)
  using witness = stage.connect()
  await witness.until(v => v.frames.some(f => f.event === 'caught_up'), 'the head')
  other.say('other, before')
  run(old, 'gone')
  run(old, 'kept one')
  other.say('other, after')
  run(old, 'kept two')
  await witness.until(v => outline(v).includes('kept two'), 'all')
  await forget(stage, { from: timeOf(witness, 'kept one') })
  using resumed = stage.connect({ cursor })
  await resumed.until(v => outline(v).at(-1) === 'caught_up' && v.frames.length > 6, 'the head')
  expect(outline(resumed)).toEqual([
    'hello',
    'reset old cursor_expired',
    'snapshot old of 0',
    'caught_up',
    'other, before',
    'kept one',
    'run_end',
    'other, after',
    'kept two',
    'run_end',
    'caught_up',
  ])
})

it('resets it in one burst with its next list, where that is the first thing kept', async () => {
  await using stage = await openStage()
  const worker = await stage.worker('w')
  const cursor = await settled(stage)
  run(worker, 'gone')
  worker.begin()
  run(worker, 'kept')
  await settled(stage)
  const { deleted } = await stage.journal.retain({ maxEntries: 1 }, 0)
  expect(deleted).toBeGreaterThan(0)
  using resumed = stage.connect({ cursor })
  await resumed.until(v => outline(v).includes('kept'), 'what is kept')
  expect(outline(resumed).slice(0, 5)).toEqual([
    'hello',
    'reset w cursor_expired',
    'snapshot w of 0',
    'caught_up',
    'kept',
  ])
})

it('tells a viewer whom retention overtakes while it catches up, in place of a silent hole', async () => {
  let overtake: (() => Promise<void>) | undefined
  await using stage = await openStage({
    wrap: journal =>
      new Proxy(journal, {
        get(target, name) {
          if (name !== 'readAfter') return Reflect.get(target, name, target)
          return async (...args: Parameters<typeof journal.readAfter>) => {
            const page = await target.readAfter(...args)
            // Behind the first page, before the second.
            if (page.entries.length > 0 && !page.atHead && overtake !== undefined) {
              const happens = overtake
              overtake = undefined
              await happens()
            }
            return page
          }
        },
      }),
  })
  const worker = await stage.worker('w')
  const cursor = await settled(stage)
  using witness = stage.connect()
  await witness.until(v => v.frames.some(f => f.event === 'caught_up'), 'the head')
  for (let n = 0; n < 1_200; n++) worker.say(`gone ${n}`)
  worker.event('run_end', {})
  run(worker, 'kept')
  await witness.until(v => outline(v).includes('kept'), 'all')
  overtake = () => forget(stage, { from: timeOf(witness, 'kept') })
  using resumed = stage.connect({ cursor })
  await resumed.until(v => outline(v).at(-1) === 'caught_up' && outline(v).includes('kept'), 'the head')
  const told = outline(resumed)
  expect(told.filter(line => line.startsWith('reset'))).toEqual(['reset w cursor_expired'])
  expect(told.slice(told.indexOf('reset w cursor_expired'))).toEqual([
    'reset w cursor_expired',
    'snapshot w of 0',
    'caught_up',
    'kept',
    'run_end',
    'caught_up',
  ])
})

it('resets a worker whose cursor expired while Shoji was stopped, and shows nothing of it twice', async () => {
  await using flow = await startFlow()
  const { worker } = flow
  const endRun = () => void worker.emit({ event: 'run_end', data: { result: 'finished' } })
  // At rest the list would be compared with what the Runtime has logged of this, and replaced.
  worker.emit({ event: 'status', data: { status: 'running' } })
  const stream = await flow.open()
  await stream.untilLive()
  const { position } = stream
  tell(worker, 'gone')
  done(worker, 'gone too')
  endRun()
  await stream.untilEnvelope('run_end')
  const at = Date.now()
  await new Promise(resolve => setTimeout(resolve, 5))
  tell(worker, 'kept')
  done(worker, 'kept too')
  endRun()
  await stream.untilEnvelope('run_end', 2)
  stream.cut()
  await flow.restart({}, async () => {
    const journal = await openJournal({ dataDir: join(flow.shoji.directory, 'data') })
    const { deleted } = await journal.retain({ maxAgeMs: 0 }, at + 1)
    await journal.close()
    expect(deleted).toBeGreaterThan(0)
  })
  using resumed = await flow.open({ lastEventId: position! }, stream.state)
  await resumed.until(s => s.state.live && s.frames.at(-1)?.event === 'caught_up', 'the head')
  const told = outline(resumed)
  expect(told.slice(0, 5)).toEqual([
    'hello',
    'reset 1 cursor_expired',
    'snapshot 1 of 0',
    'caught_up',
    'kept',
  ])
  expect(told.filter(line => line === 'kept' || line === 'kept too')).toEqual(['kept', 'kept too'])
  using fresh = await flow.open()
  await fresh.untilLive()
  expect(stateOf(resumed.state, worker)).toEqual(stateOf(fresh.state, worker))
})

const NARROWER = POLICY.replace('user_input: show, assistant_text: show, thinking: mask', 'user_input: show')

it('case 83: a policy that changed while the client was away is a reset, at every cut of the session', async () => {
  await using flow = await startFlow()
  const { worker } = flow
  const guest = await flow.open({ user: 'guest' })
  await guest.untilLive()
  for (let n = 0; n < 5; n++) {
    tell(worker, `question ${n}`)
    done(worker, `answer ${n}`)
  }
  await guest.until(saw(worker, 'answer 4'), 'the session')
  const ids = guest.frames.flatMap(f => (f.id === undefined ? [] : [f.id]))
  guest.cut()
  expect(ids.length).toBeGreaterThan(10)
  expect(NARROWER).not.toBe(POLICY)
  await flow.restart({ policy: NARROWER })
  // The list as it was before the restart is gone with it: the worker keeps no log. This is told under the new view.
  tell(worker, 'question 5')
  done(worker, 'answer 5')
  using fresh = await flow.open({ user: 'guest' })
  await fresh.until(saw(worker, 'question 5'), 'the new view')
  for (const id of ids) {
    using resumed = await flow.open({ user: 'guest', lastEventId: id }, guest.state)
    await resumed.untilLive()
    expect(outcomeOf(resumed)).toBe('reset view_changed')
    // A proven resume keeps what was asked before; a list begun anew has the last question alone.
    expect(textsOf(resumed.state, worker).at(-1)).toBe('question 5')
  }
})

it('case 83: ids of a session are good for the view they were made under when only others changed', async () => {
  await using flow = await startFlow()
  const { worker } = flow
  const admin = await flow.open()
  await admin.untilLive()
  tell(worker, 'one')
  await admin.until(saw(worker, 'one'), 'one')
  admin.cut()
  await flow.restart({ policy: NARROWER })
  using resumed = await flow.open({ lastEventId: admin.position! }, admin.state)
  await resumed.untilLive()
  expect(outcomeOf(resumed)).toBe('resumed')
})

it('case 83: an id of another selection is a reset, at every cut, and never glues two projections together', async () => {
  await using flow = await startFlow({ workers: 2 })
  const [first, second] = flow.workers
  const url = `${flow.shoji.url}/api/runtimes/rt/events`
  const both = await flow.open({ url })
  await both.untilLive()
  for (let n = 0; n < 4; n++) {
    tell(first!, `first ${n}`)
    tell(second!, `second ${n}`)
  }
  await both.until(s => saw(first!, 'first 3')(s) && saw(second!, 'second 3')(s), 'the session')
  both.cut()
  for (const { id } of both.frames) {
    if (id === undefined) continue
    using one = await flow.open({ worker: second!, lastEventId: id }, both.state)
    await one.untilLive()
    expect(outcomeOf(one)).toBe('reset view_changed')
    expect(Object.keys(one.state.workers)).toEqual([`rt/${second!.id}`])
    expect(textsOf(one.state, second!)).toEqual(['second 0', 'second 1', 'second 2', 'second 3'])
  }
})

it('case 83: an id of another user is good only where both see the same', async () => {
  await using flow = await startFlow()
  using admin = await flow.open()
  await admin.untilLive()
  using guest = await TestStream.open(`${flow.at()}/events`, {
    token: TOKENS.guest,
    lastEventId: admin.position!,
  })
  await guest.untilLive()
  expect(outcomeOf(guest)).toBe('reset view_changed')
})

it('does not start with a policy that is not valid', async () => {
  await using flow = await startFlow()
  await expect(flow.restart({ policy: 'version: 1\nstatements: 7\n' })).rejects.toThrow('statements')
})
