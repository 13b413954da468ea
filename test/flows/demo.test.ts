/** The demo as somebody has it who has just cloned this: by `npm run demo`, from its own printed words. */
import { type AddressInfo, createServer } from 'node:net'
import { beforeAll, expect, it } from 'vitest'
import { buildConsole, buildServer } from '../_support/build.ts'
import { runProgram, startDemo } from '../_support/demo-process.ts'

beforeAll(async () => {
  await buildServer()
  await buildConsole()
})

it('the demo prints an address that serves the page, and curl lines that stream as they stand', async () => {
  using demo = await startDemo('--port', '0')
  const lines = demo.said.out.split('\n').filter(line => line.trimStart().startsWith('curl'))
  expect(lines).toHaveLength(2)
  for (const line of lines) {
    using curl = runProgram('sh', ['-c', line])
    await curl.until('event: caught_up')
    expect(curl.said.out).toContain('event: hello')
  }
  const page = await fetch(demo.url)
  expect(await page.text()).toContain('<title>Shoji demo</title>')
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
})

it('the demo ends within two seconds of Ctrl-C while somebody watches, and leaves nothing', async () => {
  using demo = await startDemo('--port', '0')
  const line = demo.said.out.split('\n').find(l => l.trimStart().startsWith('curl'))
  using curl = runProgram('sh', ['-c', line ?? ''])
  await curl.until('event: caught_up')
  expect(demo.left()).not.toEqual([])
  const at = performance.now()
  demo.interrupt()
  const again = setInterval(demo.interrupt, 2)
  await demo.ended
  clearInterval(again)
  expect(performance.now() - at).toBeLessThan(2_000)
  expect(demo.left()).toEqual([])
  expect(demo.running()).toBe(false)
  await curl.until('event: bye')
  await curl.ended
  expect(demo.said.err).toBe('')
})

it('the demo says in one line that its port is taken, and leaves nothing', async () => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  try {
    using demo = runProgram(process.execPath, ['dist/main.js', 'demo', '--port', String(port)])
    expect(await demo.ended).toBe(1)
    expect(demo.said.err).toBe(
      `shoji: address_unusable: 127.0.0.1:${port} is in use by another program; choose another port\n`,
    )
    expect(demo.said.out).toBe('')
    expect(demo.left()).toEqual([])
  } finally {
    server.close()
  }
})
