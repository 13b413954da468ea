import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { ShojiError } from '../../lib/error.ts'
import { type Failure, failed, failureOf } from './failure.ts'
import type { Answer, Kind, Reply, Request, Requests, WriterOptions } from './protocol.ts'
import { Writer } from './writer.ts'

/** The way to the writer. Requests are handled in the order in which they are sent. */
export interface WriterLink {
  /** Rejects with `disk_full`, `journal_damaged` or `journal_unavailable`; a writer that died is started anew. */
  send<K extends Kind>(kind: K, request: Omit<Requests[K]['request'], 'kind'>): Promise<Reply<K>>
  /** Ends the writer in its tracks, as a crash of its thread would. For tests. */
  kill(): Promise<void>
  close(): Promise<void>
}

/** The bundled thread: beside the bundle that runs or above its chunks; for sources, where the test set-up builds it. */
const threadFile = (): URL => {
  const here = fileURLToPath(import.meta.url)
  const folders = here.endsWith('.ts') ? ['../../../.cache'] : ['.', '..']
  const file = folders.map(folder => join(dirname(here), folder, 'writer-thread.js')).find(existsSync)
  if (file === undefined) throw new ShojiError('internal', 'the writer thread is not built')
  return pathToFileURL(file)
}

interface Waiting {
  readonly kind: Kind
  readonly resolve: (reply: never) => void
  readonly reject: (error: ShojiError) => void
}

export const threadLink = (options: WriterOptions): WriterLink => {
  const waiting = new Map<number, Waiting>()
  let worker: Worker | undefined
  let sent = 0

  const died = (of: Worker, cause: string): void => {
    if (worker !== of) return
    worker = undefined
    const failure: Failure = { code: 'journal_unavailable', cause: 'writer_died', message: cause }
    for (const { kind, reject } of waiting.values()) reject(failed(failure, kind))
    waiting.clear()
  }

  const start = (): Worker => {
    // No inherited flags: those of a test runner or debugger would not load in this thread.
    const started = new Worker(threadFile(), { workerData: options, execArgv: [] })
    started.on('message', ({ id, reply, failure }: Answer) => {
      const request = waiting.get(id)
      if (request === undefined) return
      waiting.delete(id)
      if (failure !== undefined) request.reject(failed(failure, request.kind))
      else request.resolve(reply as never)
    })
    started.on('error', error => died(started, error.message))
    started.on('exit', code => died(started, `exit ${code}`))
    return started
  }

  const send: WriterLink['send'] = (kind, request) =>
    new Promise((resolve, reject) => {
      worker ??= start()
      const id = ++sent
      waiting.set(id, { kind, resolve, reject })
      worker.postMessage({ id, request: { kind, ...request } })
    })

  return {
    send,
    kill: async () => void (await worker?.terminate()),
    close: async () => {
      if (worker === undefined) return
      const ended = worker
      const gone = new Promise<void>(resolve => ended.once('exit', () => resolve()))
      await send('close', {}).catch(() => undefined)
      await ended.terminate()
      await gone
    },
  }
}

/** The same writer on the caller's thread: each commit blocks it. For tests that want speed. */
export const localLink = (options: WriterOptions): WriterLink => {
  let writer = new Writer(options)
  const send: WriterLink['send'] = async (kind, request) => {
    // A turn later, as from another thread: nothing of a request happens inside the call that sends it.
    await Promise.resolve()
    try {
      return (await writer.handle({ kind, ...request } as Request)) as Reply<typeof kind>
    } catch (error) {
      throw failed(failureOf(error), kind)
    } finally {
      if (kind === 'commit') writer.maintain()
    }
  }
  return {
    send,
    kill: async () => {
      writer.close()
      writer = new Writer(options)
    },
    close: async () => void (await send('close', {})),
  }
}
