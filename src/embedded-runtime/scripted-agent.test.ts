import { describe, expect, test } from 'vitest'
import { observe } from '../../test/_support/observation-client.ts'
import type { Generation } from './events.ts'
import { type EmbeddedRuntime, startEmbeddedRuntime } from './runtime.ts'
import { scriptedAgent } from './scripted-agent.ts'
import type { EmbeddedWorker } from './worker.ts'

const start = async (
  generation: Generation,
): Promise<{ runtime: EmbeddedRuntime; worker: EmbeddedWorker }> => {
  const runtime = await startEmbeddedRuntime({ generation })
  return { runtime, worker: runtime.addWorker({ agent: scriptedAgent() }) }
}

const post = (runtime: EmbeddedRuntime, path: string, body: object): Promise<Response> =>
  fetch(runtime.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

const input = (runtime: EmbeddedRuntime, worker: EmbeddedWorker, content: string): Promise<Response> =>
  post(runtime, `/v1/workers/${worker.id}/input`, { kind: 'user', content })

/** The names of all events a worker published, in order, without the deltas. */
const told = (runtime: EmbeddedRuntime, worker: EmbeddedWorker): string[] =>
  runtime.log
    .after(worker.id, 0n)
    .map(frame => /"?(?:payload":\{)?"event":"(\w+)"/.exec(frame)?.[1] ?? '')
    .filter(name => !name.endsWith('_delta'))

/** Lets the run come to where it holds. */
const until = async (condition: () => boolean): Promise<void> => {
  for (let turns = 0; !condition(); turns += 1) {
    if (turns > 10_000) throw new Error('it never came to that')
    await new Promise(resolve => setImmediate(resolve))
  }
}

const turn = ['turn_start', 'llm_call_start']
const callEnd = ['usage', 'llm_call_end', 'turn_end']

describe('the scripted agent', () => {
  test('tells a whole run in the recorded order of the first generation', async () => {
    const { runtime, worker } = await start('events-ws')
    await using _ = runtime
    expect((await input(runtime, worker, 'please look')).status).toBe(200)
    await worker.settled
    expect(told(runtime, worker)).toEqual([
      'user_message',
      'status',
      ...turn,
      'thinking_start',
      'thinking_done',
      'text_done',
      'tool_call_start',
      'tool_call_done',
      ...callEnd,
      'tool_result',
      ...turn,
      'text_done',
      ...callEnd,
      'run_end',
      'status',
    ])
    expect(worker.snapshotData()).toContain('You said “please look”')
  })

  test('opens a run of the later generation with the log: the prompt once, each input twice', async () => {
    const { runtime, worker } = await start('protocol-ws')
    await using _ = runtime
    await input(runtime, worker, 'scenario:plain')
    await worker.settled
    const first = told(runtime, worker)
    expect(first.slice(0, 6)).toEqual([
      'status',
      'segment_rotated',
      'invoke_start',
      'user_message',
      'user_message',
      'turn_start',
    ])
    expect(first.slice(-3)).toEqual(['run_end', 'status', 'memory_worker'])
    await input(runtime, worker, 'scenario:plain#2')
    await worker.settled
    const second = told(runtime, worker).slice(first.length)
    expect(second.slice(0, 6)).toEqual(['invoke_start', 'user_message', 'status', ...turn, 'user_message'])
    const inputs = worker.entries.filter(entry => entry.includes('"kind":"user_input"'))
    expect(inputs).toHaveLength(2)
  })

  test('runs commands with their output told twice in the later generation', async () => {
    const { runtime, worker } = await start('protocol-ws')
    await using _ = runtime
    await input(runtime, worker, 'scenario:tools')
    await worker.settled
    const names = told(runtime, worker)
    expect(names.filter(name => name === 'command')).toHaveLength(6)
    expect(names.filter(name => name === 'tool_result')).toHaveLength(4)
    expect(worker.snapshotData()).not.toContain('in_flight')
  })

  test('refuses an input while it runs, and ends in mid-sentence when cancelled', async () => {
    const { runtime, worker } = await start('events-ws')
    await using _ = runtime
    await input(runtime, worker, 'scenario:hold')
    await until(() => worker.snapshotData().includes('This sentence has no'))
    const refused = await input(runtime, worker, 'too early')
    expect(refused.status).toBe(409)
    expect(await refused.text()).toContain('returned Busy')
    const cancelled = await post(runtime, `/v1/workers/${worker.id}/cancel`, { reason: 'enough' })
    expect(await cancelled.json()).toMatchObject({ ack: { status: 'cancelled' } })
    await worker.settled
    expect(told(runtime, worker).slice(-4)).toEqual(['thinking_done', 'usage', 'error', 'status'])
    expect((await input(runtime, worker, 'again')).status).toBe(400)
  })

  test('rolls the run back when cancelled before any output', async () => {
    const { runtime, worker } = await start('events-ws')
    await using _ = runtime
    await input(runtime, worker, 'scenario:silent')
    await until(() => told(runtime, worker).includes('llm_call_start'))
    await using methods = await observe(runtime.url, `/v1/workers/${worker.id}/protocol/ws`)
    methods.socket.send('{"method":"cancel"}')
    await worker.settled
    expect(told(runtime, worker).slice(-2)).toEqual(['run_end', 'status'])
    expect(worker.snapshotData()).not.toContain('scenario:silent')
    expect((await input(runtime, worker, 'scenario:plain')).status).toBe(200)
    await worker.settled
  })

  test('has no result of a tool that was cancelled', async () => {
    const { runtime, worker } = await start('events-ws')
    await using _ = runtime
    await input(runtime, worker, 'scenario:hold-tool')
    await until(() => told(runtime, worker).includes('turn_end'))
    worker.cancel()
    await worker.settled
    expect(told(runtime, worker).slice(-3)).toEqual(['turn_end', 'error', 'status'])
  })

  test('pauses by method, and asks the model anew within the same turn when resumed', async () => {
    const { runtime, worker } = await start('protocol-ws')
    await using _ = runtime
    await using methods = await observe(runtime.url, `/v1/workers/${worker.id}/protocol/ws`)
    await input(runtime, worker, 'scenario:hold')
    await until(() => worker.snapshotData().includes('This sentence has no'))
    methods.socket.send('{"method":"pause"}')
    await until(() => worker.activity === 'paused')
    expect(told(runtime, worker).slice(-4)).toEqual(['usage', 'run_end', 'status', 'memory_worker'])
    methods.socket.send('{"method":"resume"}')
    await until(() => worker.snapshotData().includes('This sentence has no'))
    const frames = runtime.log.after(worker.id, 0n).filter(frame => frame.includes('"turn_start"'))
    expect(frames).toEqual([
      '{"event":"turn_start","data":{"turn":0}}',
      '{"event":"turn_start","data":{"turn":0}}',
    ])
    worker.cancel()
    await worker.settled
  })

  test('shuts down when stopped in mid-run, and shows an empty stand-in afterwards', async () => {
    const { runtime, worker } = await start('events-ws')
    await using _ = runtime
    await input(runtime, worker, 'scenario:hold')
    await until(() => worker.snapshotData().includes('This sentence has no'))
    await post(runtime, `/v1/workers/${worker.id}/stop`, {})
    expect(told(runtime, worker).slice(-3)).toEqual(['error', 'status', 'shutdown'])
    await using late = await observe(runtime.url, `/v1/workers/${worker.id}/events/ws`)
    expect(await late.next()).toContain('"provider":"worker-runtime"')
  })

  test('leaves a run without an end when the Runtime dies', async () => {
    const { runtime, worker } = await start('events-ws')
    await using _ = runtime
    await input(runtime, worker, 'scenario:hold')
    await until(() => worker.snapshotData().includes('This sentence has no'))
    await runtime.restart({ keepStore: true })
    expect(worker.activity).toBe('idle')
    expect(worker.snapshotData()).not.toContain('run_')
    expect(worker.snapshotData()).not.toContain('in_flight')
  })

  test.each([
    ['error', 'provider_error'],
    ['retry', 'llm_retry'],
    ['cut', 'llm_continuation'],
    ['secrets', 'ghp_FAKE'],
    ['think', 'thinking_done'],
    ['long(40)', '000039 lorem'],
    ['slow(3)', 'word2'],
    ['subworker', 'internal_worker'],
  ])('plays scenario:%s to its end', async (name, mark) => {
    const { runtime, worker } = await start('protocol-ws')
    await using _ = runtime
    await input(runtime, worker, `Go: scenario:${name}`)
    await worker.settled
    expect(runtime.log.after(worker.id, 0n).join('\n')).toContain(mark)
    expect(worker.activity).toBe('idle')
  })

  test('paces its events with the wait it is given', async () => {
    await using runtime = await startEmbeddedRuntime({ generation: 'events-ws' })
    const waits: number[] = []
    const wait = (ms: number): Promise<void> => {
      waits.push(ms)
      return Promise.resolve()
    }
    const worker = runtime.addWorker({ agent: scriptedAgent({ paceMs: 7, wait }) })
    await input(runtime, worker, 'scenario:slow(2)')
    await worker.settled
    expect(waits.filter(ms => ms === 63)).toHaveLength(2)
    expect(waits.filter(ms => ms === 7).length).toBeGreaterThan(10)
  })
})
