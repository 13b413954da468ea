import { expect, test } from 'vitest'
import { observe } from '../../test/_support/observation-client.ts'
import { publish } from './publisher.ts'
import { startEmbeddedRuntime } from './runtime.ts'

test('publishes every delta of every worker in order, and overruns no reader', async () => {
  await using runtime = await startEmbeddedRuntime({ generation: 'events-ws' })
  const workers = [runtime.addWorker(), runtime.addWorker()]
  await using first = await observe(runtime.url, '/v1/workers/1/events/ws')
  await using second = await observe(runtime.url, '/v1/workers/2/events/ws')
  await Promise.all([first.fence(), second.fence()])
  const published = await publish(workers, {
    eventsPerWorker: 3_000,
    textBytes: 2_000,
    deltasPerBlock: 1_000,
  })
  expect(published.deltas).toBe(6_000)
  for (const client of [first, second]) {
    const frames = await client.take(published.events / 2)
    const numbers = frames.flatMap(
      frame => /"event":"text_delta","data":\{"text":"(\d+) /.exec(frame)?.[1] ?? [],
    )
    expect(numbers).toEqual(Array.from({ length: 3_000 }, (_one, at) => String(at)))
    expect(frames.at(-1)).toContain('"status":"idle"')
  }
})

test('keeps to its rate', async () => {
  await using runtime = await startEmbeddedRuntime({ generation: 'protocol-ws' })
  const published = await publish([runtime.addWorker({ log: 'off' })], {
    eventsPerWorker: 50,
    eventsPerSecond: 500,
  })
  expect(published.elapsedMs).toBeGreaterThanOrEqual(95)
})

test('ends by its signal', async () => {
  await using runtime = await startEmbeddedRuntime({ generation: 'events-ws' })
  const published = await publish([runtime.addWorker()], {
    eventsPerWorker: 1_000_000,
    eventsPerSecond: 1_000,
    signal: AbortSignal.timeout(50),
  })
  expect(published.deltas).toBeLessThan(1_000)
})
