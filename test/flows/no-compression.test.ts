import { get, type IncomingMessage } from 'node:http'
import { createParser } from 'eventsource-parser'
import { expect, it } from 'vitest'
import { delta, startFlow } from '../_support/flow.ts'
import { TOKENS } from '../_support/shoji.ts'

const EVENTS = 40

/** Reads a stream that was asked for with every encoding a browser offers. */
async function readEncoded(url: string) {
  const headers = { authorization: `Bearer ${TOKENS.admin}`, 'accept-encoding': 'gzip, deflate, br, zstd' }
  const response = await new Promise<IncomingMessage>((resolve, reject) =>
    get(url, { headers }, resolve).on('error', reject),
  )
  const texts: string[] = []
  let live = false
  let heard = (): void => {}
  const parser = createParser({
    onEvent({ event, data }) {
      if (event === 'caught_up') live = true
      if (event === 'envelope') texts.push(JSON.parse(data).data.text)
      heard()
    },
  })
  response.setEncoding('utf8').on('data', chunk => parser.feed(chunk))
  const until = async (so: () => boolean): Promise<void> => {
    while (!so())
      await new Promise<void>(resolve => {
        heard = resolve
      })
  }
  return {
    headers: response.headers,
    untilLive: () => until(() => live),
    untilText: (text: string) => until(() => texts.includes(text)),
    [Symbol.dispose]: () => void response.destroy(),
  }
}

it('a client that offers gzip and br gets each event as it happens, within 50 ms, and not compressed', async () => {
  await using flow = await startFlow()
  using stream = await readEncoded(`${flow.at()}/events`)
  expect(stream.headers['content-encoding']).toBeUndefined()
  expect(stream.headers['content-type']).toBe('text/event-stream; charset=utf-8')
  expect(stream.headers['cache-control']).toBe('no-cache, no-transform')
  await stream.untilLive()
  const tookMs: number[] = []
  for (let i = 0; i < EVENTS; i++) {
    const at = performance.now()
    delta(flow.worker, `${i} `)
    // The next is not said before this one was heard: what waits for company would wait for ever.
    await stream.untilText(`${i} `)
    tookMs.push(performance.now() - at)
  }
  // Nine of ten: now and then a disk takes longer to make one durable.
  const [ninth] = tookMs.sort((a, b) => a - b).slice(Math.floor(EVENTS * 0.9))
  expect(ninth).toBeLessThan(50)
})
