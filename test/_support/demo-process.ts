/** Programs as somebody at a terminal runs them, and the demo among them. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from './flow.ts'

const root = join(import.meta.dirname, '..', '..')

/** A program in a process group of its own, as a terminal starts it, with a temporary directory of its own. */
export function runProgram(command: string, args: readonly string[]) {
  const directory = mkdtempSync(join(tmpdir(), 'shoji-demo-test-'))
  const env = { ...process.env, TMPDIR: directory, NO_UPDATE_NOTIFIER: '1' }
  const child: ChildProcess = spawn(command, args, { cwd: root, detached: true, env })
  const said = { out: '', err: '' }
  child.stdout?.on('data', chunk => {
    said.out += chunk
  })
  child.stderr?.on('data', chunk => {
    said.err += chunk
  })
  const ended = new Promise<number | null>(resolve => child.once('close', resolve))
  const group = -child.pid!
  const running = (): boolean => {
    try {
      return process.kill(group, 0)
    } catch {
      return false
    }
  }
  return {
    said,
    ended,
    left: () => readdirSync(directory).filter(name => name.startsWith('shoji')),
    /** What Ctrl-C does: the signal reaches everybody in the group. npm may pass it on once more. */
    interrupt: () => void (running() && process.kill(group, 'SIGINT')),
    running,
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

/** `npm run demo` with these options, once it has said its words. */
export async function startDemo(...args: string[]) {
  const demo = runProgram('npm', ['run', 'demo', '--', ...args])
  await demo.until('Ctrl-C ends it', 'the demo has started')
  const url = /Open (http:\S+\/)/.exec(demo.said.out)?.[1]
  if (url === undefined) throw new Error(`no address in: ${demo.said.out}`)
  return Object.assign(demo, { url })
}
