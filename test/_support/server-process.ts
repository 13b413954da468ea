import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cpSync, mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')

/** A copy of the built server of its own, so that a build meanwhile changes nothing under a test. */
export function copyServer(): Disposable & { readonly main: string } {
  const at = join(root, '.cache', `server-${randomBytes(6).toString('hex')}`)
  mkdirSync(at, { recursive: true })
  for (const name of ['dist', 'package.json', 'migrations'])
    cpSync(join(root, name), join(at, name), { recursive: true })
  return {
    main: join(at, 'dist', 'main.js'),
    [Symbol.dispose]: () => rmSync(at, { recursive: true, force: true }),
  }
}

export interface ServerProcess {
  readonly url: string
  readonly pid: number
  /** Resolves when the process is gone, with its exit code; null where a signal ended it. */
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null>
}

/** `shoji serve` as a process of its own. Resolves when it serves; rejects with what it said if it ends before. */
export async function startServerProcess(main: string, config: string): Promise<ServerProcess> {
  const child: ChildProcess = spawn(process.execPath, [main, 'serve', '--config', config], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH },
  })
  const gone = new Promise<number | null>(resolve => child.once('exit', code => resolve(code)))
  let said = ''
  const url = await new Promise<string>((resolve, reject) => {
    child.stderr?.on('data', chunk => {
      said += chunk
    })
    child.stdout?.on('data', chunk => {
      said += chunk
      const found = /serving on (\S+),/.exec(said)?.[1]
      if (found !== undefined) resolve(found)
    })
    void gone.then(code => reject(new Error(`the server ended with ${code}: ${said}`)))
  })
  return {
    url,
    pid: child.pid ?? 0,
    end(signal) {
      child.kill(signal)
      return gone
    },
  }
}
