/** A whole Shoji in a process of its own, with the counters that a bench asks for. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { loadConfig } from '../../src/config/load.ts'
import { createAudience, type Selection } from '../../src/delivery/selection.ts'
import { createCursors } from '../../src/journal/cursor.ts'
import { asSeq } from '../../src/journal/entry.ts'
import { openJournalReadOnly } from '../../src/journal/sqlite/read-only.ts'
import { createLogger } from '../../src/observability/log.ts'
import { loadPolicyFile } from '../../src/projection/policy/file.ts'
import { startService } from '../../src/service.ts'
import { configOf, serveChild } from '../support/serve-child.ts'
import { nowUs } from '../support/stamp.ts'

export interface ShojiConfig {
  readonly directory: string
  readonly runtimes: readonly { readonly id: string; readonly url: string }[]
  readonly heartbeatMs?: number
  readonly syncDelayMs?: number
}

export interface ShojiReport {
  readonly entries: number
  readonly commits: number
  readonly commitMs: number
  readonly repeated: number
  readonly loopP99Ms: number
  readonly loopMaxMs: number
  /** Share of the time in which the main thread was busy. */
  readonly mainBusy: number
  readonly cpuMs: number
  readonly wallMs: number
  readonly rssMiB: number
}

const CLASSES =
  'user_input assistant_text thinking tool_call tool_args tool_output diagnostics system workspace usage lifecycle unknown'

/** The timer of the histogram fires every so often, and what it records includes that. */
const LOOP_RESOLUTION_MS = 10

const writeConfig = (config: ShojiConfig): string => {
  const { directory, runtimes, heartbeatMs } = config
  mkdirSync(directory, { recursive: true })
  const grants = CLASSES.split(' ').map(name => `${name}: show`)
  writeFileSync(
    join(directory, 'policy.yaml'),
    `version: 1
subjects: { all: { any: [ { role: all } ] } }
statements:
  - { id: all, who: all, on: "*", grant: { observe: true, classes: { ${grants.join(', ')} } } }
`,
  )
  const file = join(directory, 'shoji.yaml')
  writeFileSync(
    file,
    `listen: { host: 127.0.0.1, port: 0 }
data_dir: data
runtimes:
${runtimes.map(({ id, url }) => `  - { id: ${id}, url: "${url}" }`).join('\n')}
auth: { mode: none, local: { roles: [all] } }
policy: { file: policy.yaml }
limits: { streams_per_user: 10000, streams: 100000 }
journal: { retain: { age: 3650d, bytes: 64GiB, entries: 1000000000 } }
stream: { heartbeat_ms: ${heartbeatMs ?? 60_000}, rotate_ms: 800000 }
log: { level: silent }
`,
  )
  return file
}

const config = configOf<ShojiConfig>()
const loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS })

const zero = () => ({ entries: 0, commits: 0, commitMs: 0, repeated: 0 })
let counted = zero()
let utilization = performance.eventLoopUtilization()
let cpu = process.cpuUsage()
let began = performance.now()
let waiting: { entries: number; resolve: (us: number) => void } | undefined

const service = await startService(
  await loadConfig({ file: writeConfig(config), env: {} }),
  createLogger({ level: 'silent', hidden: [] }),
  {
    journal: {
      ...(config.syncDelayMs !== undefined && { syncDelayMs: config.syncDelayMs }),
      events: {
        committed({ entries, repeated, ms }) {
          counted.entries += entries
          counted.commits += 1
          counted.commitMs += ms
          counted.repeated += repeated
          if (waiting === undefined || counted.entries < waiting.entries) return
          waiting.resolve(nowUs())
          waiting = undefined
        },
      },
    },
    runtimeLimits: { pollMs: 1_000, connectsAtOnce: 64 },
  },
)

/** A cursor as a viewer of the selection would hold that stood at this position. */
const cursorAt = async (selection: Selection, seq: number): Promise<string> => {
  const { policy } = await loadPolicyFile(join(config.directory, 'policy.yaml'))
  const journal = openJournalReadOnly(join(config.directory, 'data'))
  try {
    const cursors = createCursors({
      key: journal.keys.cursor,
      generations: () => journal.generations,
      head: () => journal.head,
    })
    const subject = { user: 'local', roles: ['all'], groups: [] }
    return cursors.encode(
      asSeq(seq),
      createAudience(journal.keys.id, { selection, policy, subject, history: 1 }).tag,
    )
  } finally {
    journal.close()
  }
}

const beyondResolution = (ns: number): number => Math.max(0, ns / 1e6 - LOOP_RESOLUTION_MS)

serveChild(
  { url: service.url },
  {
    /** Begins to count anew. */
    mark() {
      counted = zero()
      utilization = performance.eventLoopUtilization()
      cpu = process.cpuUsage()
      began = performance.now()
      loop.enable()
      loop.reset()
    },
    /** Resolves when so many entries are durable since the mark, with the moment in which they were. */
    until: ({ entries }: { entries: number }): Promise<number> =>
      counted.entries >= entries
        ? Promise.resolve(nowUs())
        : new Promise(resolve => {
            waiting = { entries, resolve }
          }),
    report(): ShojiReport {
      const used = process.cpuUsage(cpu)
      return {
        ...counted,
        loopP99Ms: beyondResolution(loop.percentile(99)),
        loopMaxMs: beyondResolution(loop.max),
        mainBusy: performance.eventLoopUtilization(utilization).utilization,
        cpuMs: (used.user + used.system) / 1000,
        wallMs: performance.now() - began,
        rssMiB: process.memoryUsage.rss() / 1024 / 1024,
      }
    },
    cursor: ({ selection, seq }: { selection: Selection; seq: number }) => cursorAt(selection, seq),
    stop: () => service.stop(),
  },
)
