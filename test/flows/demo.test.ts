/** The demo as somebody has it who has just cloned this: by `npm run demo`, from its own printed words. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { buildConsole, buildServer } from '../_support/build.ts'
import { eventually } from '../_support/flow.ts'

const root = join(import.meta.dirname, '..', '..')

/** A program in a process group of its own, as a terminal starts it, with a temporary directory of its own. */
function run(command: string, args: readonly string[]) {
  const directory = mkdtempSync(join(tmpdir(), 'shoji-demo-test-'))
  const env = { ...process.env, TMPDIR: directory, NO_UPDATE_NOTIFIER: '1' }
  const child: ChildProcess = spawn(command, args, { cwd: root, detached: true, env })
  const said = { out: '', err: '' }
  child.stdout?.on('data', chunk => void (said.out += chunk))
  child.stderr?.on('data', chunk => void (said.err += chunk))
  const ended = new Promise<number | null>(resolve => child.once('close', resolve))
  const group = -child.pid!
  return {
    said,
    ended,
    left: () => readdirSync(directory).filter(name => name.startsWith('shoji')),
    /** What Ctrl-C does: the signal reaches everybody in the group, and npm passes it on once more. */
    interrupt: () => process.kill(group, 'SIGINT'),
    running: () => {
      try {
        return process.kill(group, 0)
      } catch {
        return false
      }
    },
    until: (text: string | RegExp, what = `it said ${text}`) =>
      eventually(() => (typeof text === 'string' ? said.out.includes(text) : text.test(said.out)), what),
    [Symbol.dispose]() {
      try {
        process.kill(group, 'SIGKILL')
      } catch {
        // It has ended by itself.
      }
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

const startDemo = async (...args: string[]) => {
  const demo = run('npm', ['run', 'demo', '--', ...args])
  await demo.until('Ctrl-C ends it', 'the demo has started')
  const url = /Open (http:\S+\/)/.exec(demo.said.out)?.[1]
  if (url === undefined) throw new Error(`no address in: ${demo.said.out}`)
  return Object.assign(demo, { url })
}

beforeAll(async () => {
  await buildServer()
  await buildConsole()
})

it('the demo prints an address that serves the page, and curl lines that stream as they stand', async () => {
  using demo = await startDemo('--port', '0')
  const lines = demo.said.out.split('\n').filter(line => line.trimStart().startsWith('curl'))
  expect(lines).toHaveLength(2)
  for (const line of lines) {
    using curl = run('sh', ['-c', line])
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
  using curl = run('sh', ['-c', line ?? ''])
  await curl.until('event: caught_up')
  expect(demo.left()).not.toEqual([])
  const at = performance.now()
  demo.interrupt()
  await demo.ended
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
    using demo = run(process.execPath, ['dist/main.js', 'demo', '--port', String(port)])
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
