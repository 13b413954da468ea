import { expect, it } from 'vitest'
import { misbehave, unavailable } from '../../src/embedded-runtime/misbehave.ts'
import { Page } from '../_support/event-source.ts'
import {
  bearer,
  delta,
  done,
  eventually,
  type Flow,
  QUICK,
  said,
  saw,
  startFlow,
  stateOf,
  tell,
  textOf,
} from '../_support/flow.ts'
import { headerOf, type Network, startProxy } from '../_support/proxy.ts'

/** Without jitter a page comes back after half a second. */
const overrides = { ...QUICK, random: () => 0 }

const through = (flow: Flow, proxy: Network): string =>
  `http://127.0.0.1:${proxy.port}/api/runtimes/rt/workers/${flow.worker.id}/events`

const numbers = (n: number, from = 0): string[] => Array.from({ length: n - from }, (_, i) => `${from + i}`)

const pageSaw = (flow: Flow, text: string) => (page: Page) =>
  (page.state.workers[`rt/${flow.worker.id}`]?.state.items ?? []).some(item =>
    JSON.stringify(item).includes(text),
  )

it('case 9: a plain EventSource whose connection is cut while 100 entries arrive ends with all 100 and no others', async () => {
  await using flow = await startFlow({ overrides })
  await using proxy = await startProxy(flow.shoji.service.port)
  using page = new Page(through(flow, proxy))
  await page.until(p => p.state.live, 'live')
  tell(flow.worker, 'before')
  await page.until(pageSaw(flow, 'before'), 'the first')
  proxy.down = true
  proxy.cut()
  await page.until(p => p.errors > 0, 'the cut')
  using witness = await flow.open()
  await witness.untilLive()
  for (const text of numbers(100)) tell(flow.worker, text)
  await witness.until(saw(flow.worker, '99'), 'all are stored')
  // Further attempts fail before the network is there again.
  await page.until(p => p.errors > 2, 'attempts')
  proxy.down = false
  await page.until(p => said(p.frames).includes('99'), 'the newest')
  expect(said(page.frames)).toEqual(['before', ...numbers(100)])
  expect(stateOf(page.state, flow.worker)).toEqual(stateOf(witness.state, flow.worker))
  expect(page.frames.filter(f => f.event === 'snapshot')).toHaveLength(1)
})

it('case 10: frames without an id between frames with one leave the position that a reconnect carries', async () => {
  await using flow = await startFlow({ overrides })
  const runtime = misbehave(flow.runtime)
  await using proxy = await startProxy(flow.shoji.service.port)
  using page = new Page(through(flow, proxy))
  await page.until(p => p.state.live, 'live')
  tell(flow.worker, 'one')
  await page.until(pageSaw(flow, 'one'), 'a frame with an id')
  const { lastEventId } = page
  runtime.refuseRequests(unavailable, 3)
  await page.until(p => p.frames.some(f => f.event === 'status'), 'a frame without')
  expect(page.frames.filter(f => f.event === 'status').every(f => f.id === undefined)).toBe(true)
  expect(page.lastEventId).toBe(lastEventId)
  proxy.cut()
  await page.until(p => p.frames.filter(f => f.event === 'hello').length === 2, 'the reconnect')
  expect(headerOf(proxy.heads, 'last-event-id')).toEqual([undefined, lastEventId])
  await page.until(p => p.state.live, 'live again')
  expect(page.state.outcome).toBe('resumed')
  expect(said(page.frames)).toEqual(['one'])
})

it('case 11: opened with a cursor in the query, received more, cut: it resumes behind what was received', async () => {
  await using flow = await startFlow({ overrides })
  using witness = await flow.open()
  await witness.untilLive()
  for (const text of numbers(10)) tell(flow.worker, text)
  await witness.until(saw(flow.worker, '9'), 'ten entries')
  const cursor = witness.frames.find(f => f.event === 'envelope' && said([f])[0] === '5')!.id!
  await using proxy = await startProxy(flow.shoji.service.port)
  using page = new Page(`${through(flow, proxy)}?cursor=${cursor}`)
  await page.until(p => said(p.frames).includes('9'), 'what follows the cursor')
  expect(said(page.frames)).toEqual(numbers(10, 6))
  await page.until(p => p.state.live, 'live')
  proxy.cut()
  await page.until(p => p.errors > 0, 'the cut')
  for (const text of numbers(15, 10)) tell(flow.worker, text)
  await page.until(p => said(p.frames).includes('14'), 'what follows the cut')
  expect(said(page.frames)).toEqual(numbers(15, 6))
})

it('case 14: a connection that the server ends in mid-run is resumed, and only the end of the run ends it', async () => {
  await using flow = await startFlow({ overrides, extra: 'stream: { rotate_ms: 200, heartbeat_ms: 50 }' })
  const { worker } = flow
  using page = new Page(`${flow.at()}/events`)
  await page.until(p => p.state.live, 'live')
  worker.emit({ event: 'status', data: { status: 'running' } })
  const rotations = (p: Page): number => p.frames.filter(f => f.event === 'bye').length
  for (let n = 0; n < 3; n++) {
    await page.until(p => rotations(p) > n, 'the end of a connection')
    delta(worker, `${n} `)
    await page.until(p => said(p.frames).join('').includes(`${n} `), 'the delta')
    expect(stateOf(page.state, worker)).toMatchObject({
      status: 'running',
      open: { blocks: [{ kind: 'text' }] },
    })
  }
  expect(page.frames.flatMap(f => (f.event === 'bye' ? [f.data.reason] : []))).toContain('rotated')
  done(worker, '0 1 2 ')
  worker.emit({ event: 'run_end', data: { result: 'finished' } })
  worker.emit({ event: 'status', data: { status: 'idle' } })
  await page.until(p => stateOf(p.state, worker).status === 'idle', 'the end of the run')
  expect(stateOf(page.state, worker)).toMatchObject({ items: [{ text: '0 1 2 ' }], open: { blocks: [] } })
  expect(page.frames.filter(f => f.event === 'snapshot')).toHaveLength(1)
})

it('case 15: an entry appended while the backend restarts reaches a page that comes back later', async () => {
  await using flow = await startFlow({ overrides, worker: { log: 'on' } })
  await using proxy = await startProxy(flow.shoji.service.port)
  using page = new Page(through(flow, proxy))
  await page.until(p => p.state.live, 'live')
  tell(flow.worker, 'before')
  await page.until(pageSaw(flow, 'before'), 'before')
  proxy.down = true
  await flow.restart({}, () => tell(flow.worker, 'while it was away'))
  tell(flow.worker, 'before the page is back')
  using witness = await flow.open()
  await witness.until(saw(flow.worker, 'before the page is back'), 'it is stored')
  expect(page.alive).toBe(true)
  proxy.target = flow.shoji.service.port
  proxy.down = false
  await page.until(pageSaw(flow, 'before the page is back'), 'after')
  expect(stateOf(page.state, flow.worker)).toEqual(stateOf(witness.state, flow.worker))
  const messages = stateOf(page.state, flow.worker).items.filter(item => item.kind === 'user_message')
  expect(messages.map(textOf)).toEqual(['before', 'while it was away', 'before the page is back'])
})

it('case 24: of five connects and aborts within a second and one that stays, only the last is left', async () => {
  await using flow = await startFlow({ extra: 'limits: { streams: 7, streams_per_user: 7 }' })
  using witness = await flow.open()
  await witness.untilLive()
  const upstream = flow.runtime.connectionsOpen
  for (let n = 0; n < 5; n++) {
    const aborted = await flow.open()
    aborted.cut()
  }
  using last = await flow.open()
  await last.untilLive()
  tell(flow.worker, 'once')
  await last.until(saw(flow.worker, 'once'), 'what follows')
  await witness.until(saw(flow.worker, 'once'), 'what follows')
  expect(said(last.frames)).toEqual(['once'])
  expect(flow.runtime.connectionsOpen).toBe(upstream)
  // Two are left, so exactly five more find a place: of the aborted ones none is remembered.
  const more: Awaited<ReturnType<typeof flow.open>>[] = []
  await eventually(async () => {
    for (const stream of more.splice(0)) stream.cut()
    for (let n = 0; n < 5; n++) more.push(await flow.open())
    await Promise.all(more.map(stream => stream.until(s => s.frames.length > 0, 'a first frame')))
    return more.every(stream => stream.frames[0]?.event === 'hello')
  }, 'five places are free')
  using beyond = await flow.open()
  await beyond.untilFrame('bye')
  expect(beyond.frames).toMatchObject([{ event: 'bye', data: { reason: 'overloaded' } }])
  for (const stream of more) stream.cut()
})

it('case 25: two tabs share one upstream connection, and each event is stored once', async () => {
  await using flow = await startFlow()
  const [one, two] = [await flow.open(), await flow.open()]
  await Promise.all([one.untilLive(), two.untilLive()])
  expect(flow.runtime.connectionsOpen).toBe(1)
  for (const text of numbers(20)) tell(flow.worker, text)
  await Promise.all([one.until(saw(flow.worker, '19'), 'all'), two.until(saw(flow.worker, '19'), 'all')])
  expect([said(one.frames), said(two.frames)]).toEqual([numbers(20), numbers(20)])
  expect(flow.runtime.connectionsOpen).toBe(1)
  one.cut()
  two.cut()
  const { items } = await history(flow)
  expect(items).toHaveLength(20)
})

it('case 25: what happens while nobody watches is stored', async () => {
  await using flow = await startFlow()
  for (const text of numbers(20)) tell(flow.worker, text)
  await eventually(async () => (await history(flow)).items.length === 20, 'all are stored')
  using late = await flow.open()
  await late.untilLive()
  expect(stateOf(late.state, flow.worker).items).toHaveLength(20)
})

async function history(flow: Flow): Promise<{ items: unknown[] }> {
  const answer = await fetch(`${flow.at()}/history?limit=200`, { headers: bearer('admin') })
  return (await answer.json()) as { items: unknown[] }
}
