import { expect, it } from 'vitest'
import { startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import { scriptedAgent } from '../../src/embedded-runtime/scripted-agent.ts'
import { startFlow } from '../_support/flow.ts'
import { startShoji } from '../_support/shoji.ts'

const metrics = async (port: number): Promise<Map<string, number>> => {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const rows = text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
  return new Map(
    rows.map(row => [row.slice(0, row.lastIndexOf(' ')), Number(row.slice(row.lastIndexOf(' ') + 1))]),
  )
}

const until = async <T>(read: () => Promise<T>, is: (value: T) => boolean): Promise<T> => {
  for (let i = 0; i < 200; i++) {
    const value = await read()
    if (is(value)) return value
    await new Promise(r => setTimeout(r, 50))
  }
  return read()
}

it('counts each verdict and reason under names that hold no id', async () => {
  await using runtime = await startEmbeddedRuntime({ generation: 'events-ws', store: 'memory-store' })
  const worker = runtime.addWorker({ agent: scriptedAgent() })
  await using shoji = await startShoji({
    runtimes: [{ id: 'rt', url: runtime.url }],
    extra: 'metrics: { port: 0 }',
  })
  const port = shoji.service.metricsPort!
  await until(
    () => shoji.service.stats(),
    stats => stats.entries > 0,
  )
  const said = { kind: 'user', content: 'hello' }
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(said) }
  expect((await fetch(`${runtime.url}/v1/workers/${worker.id}/input`, init)).status).toBe(200)
  await worker.settled
  await runtime.restart()
  const resumed = await until(
    () => metrics(port),
    m => m.has('shoji_upstream_resumes_total{runtime="rt",verdict="proven"}'),
  )
  expect(resumed.get('shoji_upstream_resumes_total{runtime="rt",verdict="proven"}')).toBe(1)
  expect([...resumed.keys()].filter(key => key.startsWith('shoji_upstream_resets_total'))).toEqual([])
  await runtime.restart({ keepStore: false })
  runtime.addWorker({ workerId: worker.id })
  const reset = await until(
    () => metrics(port),
    m => [...m.keys()].some(k => k.startsWith('shoji_upstream_resets_total')),
  )
  expect([...reset.keys()].filter(k => k.startsWith('shoji_upstream_resets_total'))).toEqual([
    'shoji_upstream_resets_total{runtime="rt",reason="upstream_restarted"}',
  ])
  expect(reset.get('shoji_viewers{state="live"}')).toBe(0)
  for (const key of reset.keys()) expect(key).not.toContain(runtime.url.slice(7))
})

it('answers nothing but its own path, and nothing without its section', async () => {
  await using flow = await startFlow()
  expect(flow.shoji.service.metricsPort).toBeUndefined()
})
