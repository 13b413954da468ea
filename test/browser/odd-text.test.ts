import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { type Chromium, launchChromium } from '../_support/chromium.ts'
import { clientPages, startClient, stateIn, untilConnected, untilIn } from '../_support/client-page.ts'
import { delta, done, QUICK, startFlow, stateOf, tell } from '../_support/flow.ts'

let chromium: Chromium
beforeAll(async () => {
  chromium = await launchChromium()
})
afterEach(() => chromium.closeTabs())
afterAll(() => chromium?.[Symbol.asyncDispose]())

const ODD = [
  'a\rb',
  'a\nb',
  'a\r\nb',
  '\r\n\r\n',
  'a\0b',
  'a\u2028b\u2029c\u0085d',
  'data: x\n\ndata: y',
  'id: 5\nevent: bye\nretry: 1\n\n',
  ': comment',
  '\ufeffbegins with a mark',
  'half \ud83d high',
  'half \ude00 low',
  'swapped \ude00\ud83d',
  '\u202eright to left\u202c',
  '</script><!--',
  '\\u0041 "quoted" \\',
  '',
  ' ',
]

for (const transport of ['fetch', 'eventsource'] as const)
  it(`a browser's state by ${transport} holds odd texts as the Runtime said them`, async () => {
    await using flow = await startFlow({ overrides: { ...QUICK, pages: await clientPages() } })
    const { page, complaints } = await chromium.tab(flow.shoji.url)
    await startClient(page, { selection: { runtime: 'rt' }, transport })
    await untilConnected(page)
    for (const [i, text] of ODD.entries()) {
      tell(flow.worker, text)
      delta(flow.worker, text)
      done(flow.worker, text)
      const call = { id: `${text}#${i}`, name: text, arguments: JSON.stringify({ [text]: text }) }
      flow.worker.emit({ event: 'tool_call_done', data: call })
      const result = { id: call.id, summary: text, output: text, is_error: false }
      flow.worker.emit({ event: 'tool_result', data: result })
    }
    // Halves of one pair in two deltas, the first of them seen before the second is said.
    delta(flow.worker, 'pair \ud83d')
    await untilIn(page, 'pair ')
    delta(flow.worker, '\ude00 whole')
    done(flow.worker, 'pair \ud83d\ude00 whole')
    tell(flow.worker, 'the end')
    await untilIn(page, 'the end')

    const { items } = stateOf(await stateIn(page), flow.worker)
    const users = items.flatMap(i => (i.kind === 'user_message' ? [i.segments[0]?.content] : []))
    expect(users).toEqual([...ODD, 'the end'])
    const texts = items.flatMap(i => (i.kind === 'text' ? [i.text] : []))
    expect(texts).toEqual([...ODD, 'pair 😀 whole'])
    const calls = items.flatMap(i => (i.kind === 'tool_call' ? [i] : []))
    expect(
      calls.map(c => [c.name, JSON.parse(c.arguments ?? ''), c.result?.summary, c.result?.output]),
    ).toEqual(ODD.map(text => [text, { [text]: text }, text, text]))
    using fresh = await flow.open()
    await fresh.untilLive()
    expect(items).toEqual(stateOf(fresh.state, flow.worker).items)
    const frames = await page.evaluate(() => globalThis.kept.frames.map(f => f.event))
    expect(frames.filter(event => event === 'hello')).toHaveLength(1)
    expect(complaints).toEqual([])
  })
