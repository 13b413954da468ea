import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Filled } from './processes/fill.ts'
import type { ResumeTimes } from './processes/viewers.ts'
import { CACHE, ROOT } from './support/bundles.ts'
import { Child } from './support/child.ts'
import { type Bench, type BenchContext, startShoji } from './support/context.ts'
import { median, show } from './support/stats.ts'
import type { Row } from './support/table.ts'

const SIZES = [10_000, 1_000_000]
const QUIET_WORKERS = 100
const QUIET_ENTRIES = 20
const BEHIND = 10
const RUNS = 25
const WARMUP = 5
const BAR = 1.5

/** A journal is of use as long as what writes it is the same. */
const journalVersion = (): string => {
  const hash = createHash('sha256')
  for (const folder of ['src/journal', 'migrations', 'bench/processes']) {
    const files = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
      .filter(
        entry =>
          entry.isFile() &&
          !/\.test\.ts$|reader|merge|committer|retention|cursor|shoji|viewers|peers|floor|runtime/.test(
            entry.name,
          ),
      )
      .map(entry => join(entry.parentPath, entry.name))
      .sort()
    for (const file of files) hash.update(file).update(readFileSync(file))
  }
  return hash.digest('hex').slice(0, 12)
}

/** Makes a journal of so many entries, or takes the one that an earlier run made. */
const journalOf = async (context: BenchContext, entries: number): Promise<Filled & { directory: string }> => {
  const journals = join(CACHE, 'journals')
  mkdirSync(journals, { recursive: true })
  const name = `${entries}-${journalVersion()}`
  const directory = join(journals, name)
  const told = join(directory, 'filled.json')
  if (!existsSync(told)) {
    for (const old of readdirSync(journals))
      if (old.startsWith(`${entries}-`)) rmSync(join(journals, old), { recursive: true, force: true })
    context.say(`  filling a journal of ${show(entries)} entries, kept for later runs`)
    const partial = `${directory}.partial`
    const { child, ready } = await Child.start<Filled>('fill', {
      directory: join(partial, 'data'),
      entries,
      quietWorkers: QUIET_WORKERS,
      quietEntries: QUIET_ENTRIES,
    })
    await child.stop()
    writeFileSync(join(partial, 'filled.json'), JSON.stringify(ready))
    renameSync(partial, directory)
  }
  return { ...(JSON.parse(readFileSync(told, 'utf8')) as Filled), directory }
}

interface Case {
  readonly what: string
  readonly url: string
  readonly cursor: string
  readonly times: ResumeTimes[]
}

const QUIET = Array.from({ length: QUIET_WORKERS }, (_, i) => ({ runtime: 'rt', worker: `quiet-${i}` }))

const casesOf = async (shoji: Child, url: string, filled: Filled): Promise<Case[]> => {
  const one = { kind: 'worker', runtime: 'rt', worker: 'busy' }
  const many = { kind: 'workers', workers: QUIET }
  const query = QUIET.map(({ runtime, worker }) => `worker=${runtime}/${worker}`).join('&')
  const cursor = (selection: object, seq: number) => shoji.ask<string>('cursor', { selection, seq })
  return [
    {
      what: `one worker, ${BEHIND} before the end`,
      url: `${url}/api/runtimes/rt/workers/busy/events`,
      cursor: await cursor(one, filled.head - BEHIND),
      times: [],
    },
    {
      what: `${QUIET_WORKERS} workers, newest entry that far behind`,
      url: `${url}/api/events?${query}`,
      cursor: await cursor(many, filled.quietHead - BEHIND),
      times: [],
    },
  ]
}

export const resume: Bench = {
  name: 'resume',
  async run(context) {
    const { child: client } = await Child.start('viewers', {})
    const servers: Child[] = []
    const bySize: Case[][] = []
    try {
      for (const size of SIZES) {
        const filled = await journalOf(context, size)
        // Nothing listens there: what the journal holds is all there is.
        const runtimes = [{ id: 'rt', url: 'http://127.0.0.1:9' }]
        const { child, url } = await startShoji(context, { directory: filled.directory, runtimes })
        servers.push(child)
        bySize.push(await casesOf(child, url, filled))
      }
      for (let run = -WARMUP; run < RUNS; run += 1)
        for (const cases of bySize)
          for (const { url, cursor, times } of cases) {
            const time = await client.ask<ResumeTimes>('resume', { url, cursor })
            if (run >= 0) times.push(time)
          }
    } finally {
      await Promise.all([client, ...servers].map(child => child.stop()))
    }
    const [small = [], large = []] = bySize
    const rows = large.flatMap((ofLarge, i): Row[] => {
      const ofSmall = small[i]
      if (ofSmall === undefined) return []
      const compare = (name: string, pick: (times: ResumeTimes) => number): Row => {
        const a = median(ofSmall.times.map(pick))
        const b = median(ofLarge.times.map(pick))
        return {
          bench: 'resume',
          what: `${ofLarge.what}: ${name}, 10^4 and 10^6`,
          figure: `${show(a)} ms, ${show(b)} ms`,
          ratio: `${(b / a).toFixed(2)}`,
          bar: `<= ${BAR}`,
          met: b / a <= BAR,
        }
      }
      return [
        compare('first envelope', times => times.firstEnvelopeMs),
        compare('caught_up', times => times.caughtUpMs),
      ]
    })
    return {
      rows,
      notes: [
        `resume: from connect() to the frame, medians of ${RUNS} requests each, the two journals in turn, files in the page cache.`,
      ],
      data: bySize,
    }
  },
}
