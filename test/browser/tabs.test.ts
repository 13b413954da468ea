import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Chromium, launchChromium, type WatchedPage } from '../_support/chromium.ts'
import { clientPages, startClient, stateIn, untilConnected, untilIn } from '../_support/client-page.ts'
import { startCuttingProxy } from '../_support/cutting-proxy.ts'
import { press, startDemoFlow, transcriptOf, untilConnection, untilShown } from '../_support/demo-page.ts'
import { eventually, QUICK, startFlow, stateOf, tell } from '../_support/flow.ts'

let chromium: Chromium
beforeAll(async () => {
  chromium = await launchChromium()
})
afterAll(() => chromium?.[Symbol.asyncDispose]())

const VIEWERS = ['admin', 'guest'] as const

/** What a browser says of a network that failed is no complaint about the page. */
const ofThePage = ({ complaints }: WatchedPage): string[] =>
  complaints.filter(text => !/net::ERR_/.test(text))

it('the eighth tab of the page works on plain HTTP/1.1, and so do the others when the first closes', async () => {
  await using flow = await startDemoFlow()
  await using proxy = await startCuttingProxy(flow.shoji.url)
  const tabs: WatchedPage[] = []
  for (let i = 0; i < 8; i++) {
    const tab = await chromium.tab(proxy.url)
    tabs.push(tab)
    for (const viewer of VIEWERS) await untilConnection(tab.page, viewer, 'live')
  }
  // Six is what a browser allows; with a stream a pane there would be sixteen.
  expect(proxy.open).toBeLessThanOrEqual(6)
  tell(flow.worker, 'to everybody')
  for (const { page } of tabs) for (const viewer of VIEWERS) await untilShown(page, viewer, 'to everybody')

  await tabs[0]!.page.close()
  await press(tabs[3]!.page, 'guest')
  await untilConnection(tabs[3]!.page, 'guest', 'offline')
  tell(flow.worker, 'after the first has gone')
  const open = tabs.slice(1)
  for (const { page } of open) await untilShown(page, 'admin', 'after the first has gone')
  expect((await transcriptOf(tabs[3]!.page, 'guest')).length).toBe(1)
  await press(tabs[3]!.page, 'guest')
  for (const { page } of open) await untilShown(page, 'guest', 'after the first has gone')
  const [first, ...others] = await Promise.all(open.map(({ page }) => transcriptOf(page, 'guest')))
  for (const other of others) expect(other).toEqual(first)
  for (const tab of open) expect(tab.complaints).toEqual([])
  await chromium.closeTabs()
})

// The others wait more than they do: side by side, each with a server and pages of its own.
it.concurrent('a tab that closes leaves the stream, and the last of them takes it with it', async () => {
  await using flow = await startDemoFlow()
  await using proxy = await startCuttingProxy(flow.shoji.url)
  const [stays, goes] = [await chromium.tab(proxy.url), await chromium.tab(proxy.url)]
  for (const { page } of [stays, goes])
    for (const viewer of VIEWERS) await untilConnection(page, viewer, 'live')
  await press(stays.page, 'admin')
  await untilConnection(stays.page, 'admin', 'offline')
  await goes.page.close()
  // The guest's stream is all that is left, once those that are kept for the next request have timed out.
  await eventually(() => proxy.open === 1, "the operator's stream has ended")
  tell(flow.worker, 'to the one that stays')
  await untilShown(stays.page, 'guest', 'to the one that stays')
  await press(stays.page, 'admin')
  await untilShown(stays.page, 'admin', 'to the one that stays')
})

it.concurrent('every pane recovers by itself from a server that was away, and says so meanwhile', async () => {
  await using flow = await startDemoFlow()
  await using proxy = await startCuttingProxy(flow.shoji.url)
  const tabs = [await chromium.tab(proxy.url), await chromium.tab(proxy.url)]
  for (const { page } of tabs) for (const viewer of VIEWERS) await untilConnection(page, viewer, 'live')
  tell(flow.worker, 'before')
  for (const { page } of tabs) for (const viewer of VIEWERS) await untilShown(page, viewer, 'before')
  for (const { page } of tabs)
    await page.evaluate(() => {
      const seen = new Set<string>()
      Object.assign(globalThis, { seen })
      new MutationObserver(changes => {
        for (const { target } of changes) seen.add((target as HTMLElement).dataset.connection ?? '')
      }).observe(document.body, { subtree: true, attributeFilter: ['data-connection'] })
    })
  await flow.restart({}, async () => {
    proxy.refuse()
    proxy.cut()
    for (const { page } of tabs) for (const viewer of VIEWERS) await untilConnection(page, viewer, 'offline')
    const refused = proxy.refused
    await eventually(() => proxy.refused >= refused + 2, 'attempts go on')
    tell(flow.worker, 'meanwhile')
  })
  proxy.lead(flow.shoji.url)
  proxy.allow()
  tell(flow.worker, 'after')
  for (const tab of tabs) {
    for (const viewer of VIEWERS) {
      await untilConnection(tab.page, viewer, 'live')
      await untilShown(tab.page, viewer, 'after')
    }
    const seen = await tab.page.evaluate(() => [...(globalThis as unknown as { seen: Set<string> }).seen])
    expect(seen).not.toContain('denied')
    expect(seen).not.toContain('signed_out')
    expect(ofThePage(tab)).toEqual([])
  }
  using fresh = await flow.open({ user: 'guest' })
  await fresh.untilLive()
  const texts = stateOf(fresh.state, flow.worker).items.map(item => item.id)
  const shown = await tabs[1]!.page.$$eval('[data-viewer="guest"] .card', cards =>
    cards.map(card => card.getAttribute('data-item')),
  )
  expect(shown).toEqual(texts)
})

it.concurrent.each([false, true])(
  'a client (shared: %s) notices within three beats that nothing passes any more, and repairs itself',
  async shared => {
    const heartbeatMs = 600
    await using flow = await startFlow({
      extra: `stream: { heartbeat_ms: ${heartbeatMs} }`,
      overrides: { ...QUICK, pages: await clientPages() },
    })
    await using proxy = await startCuttingProxy(flow.shoji.url)
    const { page } = await chromium.tab(proxy.url)
    await startClient(page, { selection: { runtime: 'rt' }, shared })
    await untilConnected(page)
    proxy.stall()
    tell(flow.worker, 'into the void')
    await untilIn(page, 'into the void')
    await untilConnected(page)
    const connections = await page.evaluate(() => globalThis.kept.connections)
    const stale = connections.find(c => c.state === 'stale')
    const states = connections.map(c => c.state)
    expect([states[1], states.at(-1)]).toEqual(['stale', 'live'])
    // The next attempt may go out over another of the connections that fell silent.
    expect(states.filter(s => !['live', 'stale', 'offline', 'catching_up'].includes(s))).toEqual([])
    const silentMs = stale!.atMs - stale!.since!
    expect(silentMs).toBeGreaterThan(2 * heartbeatMs)
    // The third beat, and what two busy cores may add.
    expect(silentMs).toBeLessThan(4 * heartbeatMs)
    using fresh = await flow.open()
    await fresh.untilLive()
    expect(stateOf(await stateIn(page), flow.worker)).toEqual(stateOf(fresh.state, flow.worker))
  },
)
