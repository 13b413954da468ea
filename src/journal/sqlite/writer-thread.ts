/** Entry of the writer's thread: one request at a time, then the upkeep of the WAL. */
import { parentPort, workerData } from 'node:worker_threads'
import { failureOf } from './failure.ts'
import type { Answer, Request, WriterOptions } from './protocol.ts'
import { Writer } from './writer.ts'

/** Without a commit for this long the WAL is emptied and truncated. */
const IDLE_MS = 1000

const port = parentPort
if (port !== null) {
  const writer = new Writer(workerData as WriterOptions)
  let idle: NodeJS.Timeout | undefined
  const answer = (message: Answer): void => port.postMessage(message)

  port.on('message', async ({ id, request }: { id: number; request: Request }) => {
    clearTimeout(idle)
    try {
      const reply = writer.handle(request)
      answer({ id, reply: reply instanceof Promise ? await reply : reply })
    } catch (error) {
      answer({ id, failure: failureOf(error) })
    }
    if (request.kind === 'close') return port.close()
    // After the answer: nobody's entries wait for a checkpoint.
    writer.maintain()
    idle = setTimeout(() => writer.idle(), IDLE_MS)
  })
}
