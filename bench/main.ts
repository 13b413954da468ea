/** npm run bench -- [names…] [--prof]: measures, prints a table, and writes everything to bench/results/. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, platform, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { fanOut } from './fan-out.ts'
import { ingest } from './ingest.ts'
import { resume } from './resume.ts'
import { slowDisk } from './slow-disk.ts'
import { buildProcesses, CACHE, ROOT } from './support/bundles.ts'
import { type BenchResult, formatTable } from './support/table.ts'

/** A bench that hangs ends the run; its processes end with this one. */
const BENCH_MAX_MS = 300_000

const BENCHES = [resume, ingest, slowDisk, fanOut]

const say = (line: string): void => void process.stdout.write(`${line}\n`)

const asked = process.argv.slice(3).filter(word => !word.startsWith('--'))
const unknown = asked.filter(name => !BENCHES.some(bench => bench.name === name))
if (unknown.length > 0) {
  say(`no such bench: ${unknown.join(', ')}; there are ${BENCHES.map(bench => bench.name).join(', ')}`)
  process.exit(2)
}

const environment = {
  date: new Date().toISOString(),
  node: process.version,
  cores: cpus().length,
  cpu: cpus()[0]?.model ?? '',
  system: `${platform()} ${release()}`,
  memoryGiB: Math.round(totalmem() / 1024 ** 3),
  load: loadavg().map(load => Number(load.toFixed(2))),
}
say(`${environment.cores} cores (${environment.cpu}), ${environment.memoryGiB} GiB, ${environment.system}`)
say(`node ${environment.node}, load ${environment.load.join(' ')} before the run, ${environment.date}`)
await buildProcesses()

const profileDir = process.argv.includes('--prof') ? join(CACHE, 'profiles') : undefined
if (profileDir !== undefined) mkdirSync(profileDir, { recursive: true })
const results: Record<string, BenchResult> = {}
for (const bench of BENCHES) {
  if (asked.length > 0 && !asked.includes(bench.name)) continue
  const started = Date.now()
  say(`\n${bench.name}`)
  const overdue = setTimeout(() => {
    say(`${bench.name} is not done after ${BENCH_MAX_MS / 1000} s`)
    process.exit(1)
  }, BENCH_MAX_MS)
  results[bench.name] = await bench.run({ say, ...(profileDir !== undefined && { profileDir }) })
  clearTimeout(overdue)
  say(`  took ${Math.round((Date.now() - started) / 1000)} s`)
}

const all = Object.values(results)
say(`\n${formatTable(all.flatMap(({ rows }) => rows))}\n`)
for (const note of all.flatMap(({ notes }) => notes)) say(note)
const directory = join(ROOT, 'bench', 'results')
mkdirSync(directory, { recursive: true })
const file = join(directory, `${environment.date.replace(/[:.]/g, '-')}.json`)
writeFileSync(file, JSON.stringify({ environment, results }, null, 1))
say(`\nwritten: bench/results/${file.split('/').at(-1)}`)
process.exit(0)
