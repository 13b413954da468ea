import { type ChildProcess, fork } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ChaosAnswer, ChaosCommand, ChaosConfig } from './chaos-runtime.ts'

const here = dirname(fileURLToPath(import.meta.url))

/** The Runtime of `chaos-runtime.ts` as a process that can be killed. */
export interface ChaosProcess {
  readonly url: string
  /** One command at a time. Rejects if the process ends meanwhile. */
  tell(command: ChaosCommand): Promise<ChaosAnswer>
  /** Resolves when it is gone. */
  kill(): Promise<void>
}

/** Resolves when it listens and every worker has begun. */
export async function startChaosProcess(config: ChaosConfig): Promise<ChaosProcess> {
  const child: ChildProcess = fork(
    join(here, 'run-typescript.mjs'),
    [join(here, 'chaos-runtime.ts'), JSON.stringify(config)],
    { stdio: ['ignore', 'ignore', 'inherit', 'ipc'], execArgv: [] },
  )
  const gone = new Promise<void>(resolve => child.once('exit', () => resolve()))
  const heard = (): Promise<ChaosAnswer> =>
    new Promise((resolve, reject) => {
      child.once('message', message => resolve(message as ChaosAnswer))
      void gone.then(() => reject(new Error('the Runtime process has ended')))
    })
  const { url } = await heard()
  let turn: Promise<unknown> = Promise.resolve()
  return {
    url,
    tell(command) {
      const answered = turn.then(() => {
        const answer = heard()
        // Of a process that is gone `heard` tells.
        child.send(command, () => {})
        return answer
      })
      turn = answered.catch(() => undefined)
      return answered
    },
    kill() {
      child.kill('SIGKILL')
      return gone
    },
  }
}
