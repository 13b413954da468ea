import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Chromium, launchChromium } from '../_support/chromium.ts'
import {
  clientPages,
  signIn,
  startClient,
  stateIn,
  untilConnected,
  untilIn,
} from '../_support/client-page.ts'
import { startCuttingProxy } from '../_support/cutting-proxy.ts'
import { eventually, QUICK, startFlow, stateOf, tell, textsOf } from '../_support/flow.ts'

interface Heard {
  readonly event: string
  readonly id: string
  readonly data: string
}

declare global {
  var heard: Heard[]
}

let chromium: Chromium
beforeAll(async () => {
  chromium = await launchChromium()
})
afterAll(() => chromium?.[Symbol.asyncDispose]())

const setUp = async () => {
  const flow = await startFlow({ overrides: { ...QUICK, pages: await clientPages() } })
  const proxy = await startCuttingProxy(flow.shoji.url)
  const { page } = await chromium.tab(proxy.url)
  return {
    flow,
    proxy,
    page,
    async [Symbol.asyncDispose]() {
      await page.close()
      await proxy[Symbol.asyncDispose]()
      await flow[Symbol.asyncDispose]()
    },
  }
}

/** Cuts, lets the entries come while the browser knocks in vain, and lets it in again. */
const whileCut = async ({ flow, proxy }: Awaited<ReturnType<typeof setUp>>, texts: readonly string[]) => {
  using other = await flow.open()
  proxy.refuse()
  proxy.cut()
  for (const text of texts) tell(flow.worker, text)
  await other.until(s => textsOf(s.state, flow.worker).at(-1) === texts.at(-1))
  await eventually(() => proxy.refused >= 2, 'the browser has tried again')
  proxy.allow()
}

const numbered = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, i) => `entry ${from + i}`)

it('a plain EventSource that is cut while 100 entries arrive ends with all of them and no others', async () => {
  await using set = await setUp()
  const { flow, page } = set
  await signIn(page, 'admin')
  await page.evaluate(() => {
    globalThis.heard = []
    const source = new EventSource('/api/runtimes/rt/events')
    for (const event of ['hello', 'snapshot', 'caught_up', 'envelope', 'gap', 'reset', 'beat', 'view', 'bye'])
      source.addEventListener(event, ({ lastEventId: id, data }) => {
        globalThis.heard.push({ event, id, data })
      })
  })
  await page.waitForFunction(() => globalThis.heard.some(f => f.event === 'caught_up'))
  const texts = numbered(0, 160)
  for (const text of texts.slice(0, 40)) tell(flow.worker, text)
  const untilHeard = (text: string) =>
    page.waitForFunction(wanted => globalThis.heard.some(f => f.data.includes(wanted)), `"${text}"`)
  await untilHeard('entry 39')
  await whileCut(set, texts.slice(40, 140))
  await untilHeard('entry 139')
  for (const text of texts.slice(140)) tell(flow.worker, text)
  await untilHeard('entry 159')

  const heard = await page.evaluate(() => globalThis.heard)
  const envelopes = heard.filter(f => f.event === 'envelope')
  expect(envelopes.map(f => JSON.parse(f.data).data.segments[0].content)).toEqual(texts)
  expect(new Set(envelopes.map(f => f.id)).size).toBe(texts.length)
  const hellos = heard.filter(f => f.event === 'hello').map(f => JSON.parse(f.data).outcome)
  expect(hellos).toEqual(['fresh', 'resumed'])
  expect(heard.filter(f => f.event === 'reset' || f.event === 'gap')).toEqual([])
})

// Side by side; one of them alone signs in, since a cookie does not tell ports apart.
it.concurrent.each([
  ['eventsource', false],
  ['fetch', false],
  ['fetch', true],
] as const)(
  'the client by %s (shared: %s) ends a cut with what an uncut viewer has',
  async (transport, shared) => {
    await using set = await setUp()
    const { flow, page } = set
    await startClient(page, { selection: { runtime: 'rt' }, transport, shared })
    await untilConnected(page)
    tell(flow.worker, 'entry 0')
    await untilIn(page, 'entry 0')
    await whileCut(set, numbered(1, 101))
    await untilIn(page, '"entry 100"')
    await untilConnected(page)
    using uncut = await flow.open({ query: { history: '1000' } })
    await uncut.untilLive()
    const state = await stateIn(page)
    expect(stateOf(state, flow.worker)).toEqual(stateOf(uncut.state, flow.worker))
    expect(textsOf(state, flow.worker)).toEqual(numbered(0, 101))
    const said = await page.evaluate(() => globalThis.kept.connections.map(c => c.state))
    expect(said[0]).toBe('live')
    expect(said).toContain('stale')
    expect(said.at(-1)).toBe('live')
    const frames = await page.evaluate(() => globalThis.kept.frames.map(f => f.event))
    expect(frames.filter(event => event === 'snapshot')).toHaveLength(1)
  },
)
