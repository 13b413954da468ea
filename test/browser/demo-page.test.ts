import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { scriptedAgent } from '../../src/embedded-runtime/scripted-agent.ts'
import { buildConsole, buildServer } from '../_support/build.ts'
import { type Chromium, launchChromium } from '../_support/chromium.ts'
import {
  press,
  sayIn,
  startDemoFlow,
  transcriptOf,
  untilConnection,
  untilShown,
} from '../_support/demo-page.ts'
import { startDemo } from '../_support/demo-process.ts'
import { done, tell } from '../_support/flow.ts'

let chromium: Chromium
beforeAll(async () => {
  chromium = await launchChromium()
})
afterAll(() => chromium?.[Symbol.asyncDispose]())

const open = async (url: string) => {
  const tab = await chromium.tab(url)
  for (const viewer of ['admin', 'guest']) await untilConnection(tab.page, viewer, 'live')
  return { ...tab, [Symbol.asyncDispose]: () => tab.page.close() }
}

describe('the demo page', () => {
  it('shows each viewer what the policy lets them see, side by side and live', async () => {
    await using flow = await startDemoFlow({ worker: { agent: scriptedAgent(), log: 'on' } })
    await using tab = await open(flow.shoji.url)
    const { page, complaints } = tab
    await sayIn(page, 'admin', 'the planted phrase')
    for (const viewer of ['admin', 'guest'])
      await untilShown(page, viewer, 'You said “the planted phrase”. I looked')
    const admin = await transcriptOf(page, 'admin')
    const guest = await transcriptOf(page, 'guest')
    const [seen, shown] = [admin, guest].map(cards => cards.map(([, text]) => text).join('\n'))
    for (const hidden of ['I will look around first', 'ls -1', 'README.md', 'notes']) {
      expect(seen).toContain(hidden)
      expect(shown).not.toContain(hidden)
      expect(await page.innerHTML('[data-viewer="guest"]')).not.toContain(hidden)
    }
    expect(guest.map(([kind]) => kind)).toEqual(admin.map(([kind]) => kind))
    for (const bar of ['thinking withheld', 'arguments withheld', 'output withheld'])
      expect(shown).toContain(bar)
    expect(await page.isDisabled('.pane[data-viewer="guest"] textarea')).toBe(true)
    expect(complaints).toEqual([])
  })

  it('comes up with the demo as it is installed, and both viewers see the answer to what one says', async () => {
    await Promise.all([buildServer(), buildConsole()])
    using demo = await startDemo('--port', '0')
    const { page, complaints } = await chromium.tab(demo.url)
    for (const viewer of ['ana', 'guest']) await untilConnection(page, viewer, 'live')
    await sayIn(page, 'ana', 'plain words')
    for (const viewer of ['ana', 'guest']) await untilShown(page, viewer, 'You said “plain words”. I looked')
    const texts = async (viewer: string) => (await transcriptOf(page, viewer)).map(([, text]) => text).join()
    expect(await texts('ana')).toContain('The user says: plain words')
    expect(await texts('guest')).not.toContain('The user says')
    expect(complaints).toEqual([])
    await page.selectOption('#worker', { index: 1 })
    await untilShown(page, 'guest', 'scenario:')
    expect(await texts('ana')).not.toContain('plain words')
    await page.close()
  })

  it('resumes a dropped viewer with all that happened meanwhile, once', async () => {
    await using flow = await startDemoFlow({ worker: { agent: scriptedAgent(), log: 'on' } })
    await using tab = await open(flow.shoji.url)
    const { page, complaints } = tab
    await sayIn(page, 'admin', 'first')
    await untilShown(page, 'guest', 'You said “first”')
    await press(page, 'guest')
    await untilConnection(page, 'guest', 'offline')
    await sayIn(page, 'admin', 'second')
    await untilShown(page, 'admin', 'You said “second”')
    await sayIn(page, 'admin', 'third')
    await untilShown(page, 'admin', 'You said “third”')
    const before = await transcriptOf(page, 'guest')
    expect(before.some(([, text]) => text.includes('second'))).toBe(false)
    await press(page, 'guest')
    await untilShown(page, 'guest', 'You said “third”')
    await page.waitForFunction(() =>
      /resumed with \d+ missed/.test(document.querySelector('[data-viewer="guest"]')?.textContent ?? ''),
    )
    const resumed = await transcriptOf(page, 'guest')
    expect(resumed.slice(0, before.length)).toEqual(before)

    // A browser of its own, so that nothing of this one's stream is in what it shows.
    await using other = await launchChromium()
    const fresh = await other.tab(flow.shoji.url)
    await untilShown(fresh.page, 'guest', 'You said “third”')
    expect(resumed).toEqual(await transcriptOf(fresh.page, 'guest'))
    expect(await transcriptOf(page, 'admin')).toEqual(await transcriptOf(fresh.page, 'admin'))
    expect(complaints).toEqual([])
  })

  it('shows markup and scripts in what an agent says as the text that they are', async () => {
    await using flow = await startDemoFlow()
    await using tab = await open(flow.shoji.url)
    const { page, complaints } = tab
    const requests: string[] = []
    page.on('request', request => requests.push(request.url()))
    const hostile = [
      '<script>globalThis.harmed = 1</script>',
      '<img src="https://example.invalid/leak?x" onerror="globalThis.harmed = 2">',
      '<svg onload="globalThis.harmed = 3"><use href="https://example.invalid/x#a"/></svg>',
      '[text](javascript:globalThis.harmed=4) ![image](https://example.invalid/leak)',
      '</pre></details><h1>not a title</h1><style>* { display: none }</style>',
    ]
    // In a run, as an agent would: at rest a snapshot is compared, and says nothing of what no run has logged.
    flow.worker.emit({ event: 'status', data: { status: 'running' } })
    for (const text of hostile) {
      tell(flow.worker, text)
      done(flow.worker, text)
      flow.worker.emit({
        event: 'tool_call_done',
        data: { id: `call_${hostile.indexOf(text)}`, name: text, arguments: JSON.stringify({ text }) },
      })
      flow.worker.emit({
        event: 'tool_result',
        data: { id: `call_${hostile.indexOf(text)}`, summary: text, output: text, is_error: false },
      })
      flow.worker.emit({ event: 'error', data: { code: text, message: text } })
    }
    tell(flow.worker, 'the end')
    for (const viewer of ['admin', 'guest']) await untilShown(page, viewer, 'the end')
    const shown = (await transcriptOf(page, 'admin')).map(([, text]) => text).join('\n')
    for (const text of hostile) expect(shown.split(text).length).toBeGreaterThan(4)
    const foreign = '.transcript :is(script, img, svg, a, h1, style, iframe, link)'
    expect(await page.$$eval(foreign, found => found.length)).toBe(0)
    expect(await page.evaluate(() => 'harmed' in globalThis)).toBe(false)
    expect(requests.filter(url => !url.startsWith(flow.shoji.url))).toEqual([])
    expect(complaints).toEqual([])
  })
})
