/** A Runtime in a process of its own that says stamped deltas at a steady rate, for benches that time the way. */
import { startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import { pace } from '../support/pace.ts'
import { configOf, serveChild } from '../support/serve-child.ts'
import { STAMP_CHARS, stampText } from '../support/stamp.ts'

export interface RuntimeProcess {
  readonly workers: number
  readonly textChars: number
}

const { workers: count, textChars } = configOf<RuntimeProcess>()
// No socket is overrun: what a bench wants to know is when the server falls behind.
const runtime = await startEmbeddedRuntime({ generation: 'events-ws', queueEvents: 65_536 })
for (let made = 0; made < count; made += 1) runtime.addWorker({ log: 'off' })
const workers = [...runtime.workers.values()]
const filler = 'x'.repeat(Math.max(0, textChars - STAMP_CHARS))

serveChild(
  { url: runtime.url, workerIds: workers.map(worker => worker.id) },
  {
    /** One open run and block in every worker, so that what follows is deltas alone. */
    begin() {
      for (const worker of workers) {
        worker.emit({ event: 'status', data: { status: 'running' } })
        worker.emit({ event: 'text_delta', data: { text: stampText(0) + filler } })
      }
    },
    publish: ({ perSecond, seconds }: { perSecond: number; seconds: number }) =>
      pace(perSecond, seconds, (dueUs, index) => {
        workers[index % workers.length]?.emit({
          event: 'text_delta',
          data: { text: stampText(dueUs) + filler },
        })
      }),
    stop: () => runtime.close(),
  },
)
