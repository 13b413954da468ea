import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { hiddenValues } from '../config/config.ts'
import { loadConfig } from '../config/load.ts'
import { loadRecording } from '../embedded-runtime/recording.ts'
import { replayInto } from '../embedded-runtime/replay-into.ts'
import { startEmbeddedRuntime } from '../embedded-runtime/runtime.ts'
import { scriptedAgent } from '../embedded-runtime/scripted-agent.ts'
import type { EmbeddedWorker } from '../embedded-runtime/worker.ts'
import { createLogger } from '../observability/log.ts'
import { startService } from '../service.ts'
import { DEMO_RUNTIME, type DemoFiles, writeDemoFiles } from './demo-files.ts'
import { demoPages } from './demo-pages.ts'
import { type CliIo, EXIT } from './run.ts'
import { aborted } from './serve.ts'

const DEFAULT_PORT = 7420
const PACE_MS = 60
const PAUSE_BETWEEN_SESSIONS_MS = 5_000
/** What the first worker shows, one after another, for as long as the demo runs. */
const SESSIONS = ['thinking-text', 'tools', 'secrets', 'stream-cut']

/** Everything on this machine: a Runtime with recorded sessions and a scripted agent, and two viewers of it. */
export async function demo(options: { readonly port?: number }, io: CliIo): Promise<number> {
  const { signal } = io
  const token = randomBytes(16).toString('hex')
  await using runtime = await startEmbeddedRuntime({ generation: 'events-ws', token })
  const replayed = runtime.addWorker({ profile: 'recorded' })
  const answering = runtime.addWorker({ profile: 'scripted', agent: scriptedAgent({ paceMs: PACE_MS }) })
  const files = await writeDemoFiles(runtime.url, token, options.port ?? DEFAULT_PORT)
  try {
    const config = await loadConfig({ file: files.config, env: io.env })
    const log = createLogger({ level: config.log.level, hidden: hiddenValues(config) })
    const root = projectRoot()
    const workers = [
      { worker: answering.id, note: 'answers what you type' },
      { worker: replayed.id, note: 'replays recorded sessions' },
    ]
    const settings = { runtime: DEMO_RUNTIME, viewers: files.viewers, workers }
    const pages = demoPages(join(root, 'dist', 'console'), settings)
    const service = await startService(config, log, { pages })
    io.stdout.write(welcome(service.url, files, answering.id, replayed.id))
    const replaying = playSessions(replayed, join(root, 'test', 'recordings'), signal)
    await aborted(signal)
    await replaying
    await service.stop()
    return EXIT.done
  } finally {
    await rm(files.directory, { recursive: true, force: true })
  }
}

/** The directory of package.json, from the bundle and from the source alike. */
const projectRoot = (): string => {
  const here = dirname(fileURLToPath(import.meta.url))
  const at = here.search(/[\\/](dist|src)([\\/]|$)/)
  return at < 0 ? here : here.slice(0, at)
}

async function playSessions(worker: EmbeddedWorker, directory: string, signal: AbortSignal): Promise<void> {
  const recordings = await Promise.all(SESSIONS.map(name => loadRecording(directory, name)))
  for (let i = 0; !signal.aborted; i = (i + 1) % recordings.length) {
    await replayInto(worker, recordings[i]!, { speed: 1, signal })
    await pause(PAUSE_BETWEEN_SESSIONS_MS, signal)
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise(resolve => {
    const end = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end)
    if (signal.aborted) end()
  })

function welcome(url: string, { viewers }: DemoFiles, answering: string, replayed: string): string {
  const curls = viewers.map(
    ({ name, token, note }) =>
      `  # as ${name}, ${note}\n` +
      `  curl -N -H 'Authorization: Bearer ${token}' ${url}/api/runtimes/${DEMO_RUNTIME}/workers/${replayed}/events\n`,
  )
  return `
Shoji demo: one Runtime, two agents, two viewers of the same stream.

  Open ${url}/  (both viewers side by side; drop and resume either)

  Worker ${replayed} replays recorded sessions; worker ${answering} answers what you type.
  Or follow worker ${replayed} from a terminal:

${curls.join('\n')}
Ctrl-C ends it; nothing is left behind.
`
}
