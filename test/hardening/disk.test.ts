/** The disk is full, the file is damaged, the directory is held: what is told, and what is never lost. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { misbehave } from '../../src/embedded-runtime/misbehave.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'
import { asSeq } from '../../src/journal/entry.ts'
import type { SqliteJournal } from '../../src/journal/sqlite/journal.ts'
import { openJournalReadOnly } from '../../src/journal/sqlite/read-only.ts'
import { eventually, type Flow, type FlowOptions, QUICK, said, startFlow, tell } from '../_support/flow.ts'
import { copyServer, startServerProcess } from '../_support/server-process.ts'
import { startShoji, TOKENS, writeShojiFiles } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'

const QUICK_RETRY = { flush: { retryMinMs: 20, retryMaxMs: 100 } }

async function startWithJournal(
  options: FlowOptions = {},
): Promise<{ flow: Flow; journal: () => SqliteJournal }> {
  let journal: SqliteJournal | undefined
  const flow = await startFlow({
    ...options,
    overrides: {
      ...QUICK,
      journal: QUICK_RETRY,
      onJournal(opened) {
        journal = opened
      },
    },
  })
  return {
    flow,
    journal() {
      if (journal === undefined) throw new Error('no journal')
      return journal
    },
  }
}

const ready = async (flow: Flow): Promise<{ status: number; journal?: string }> => {
  const answer = await fetch(`${flow.shoji.url}/readyz`)
  return { status: answer.status, ...((await answer.json()) as object) }
}

const upstreamsOf = (stream: TestStream): string[] =>
  stream.frames.flatMap(f => (f.event === 'status' && f.data.worker === undefined ? [f.data.upstream] : []))

/** `n` messages of about `bytes` each, numbered from `from`. */
function load(worker: EmbeddedWorker, from: number, count: number, bytes: number): void {
  for (let n = from; n < from + count; n++) tell(worker, `${n} ${'x'.repeat(bytes)}`)
}

const numbersOf = (stream: TestStream): number[] => said(stream.frames).map(text => Number.parseInt(text, 10))
const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n)

it('goes red on a full disk, shows nothing that is not durable, and goes on without a hole when there is room again', async () => {
  const { flow, journal } = await startWithJournal()
  await using _ = flow
  const { worker } = flow
  using live = await flow.open({ timeoutMs: 60_000 })
  await live.untilLive()
  load(worker, 0, 50, 100)
  await live.until(s => numbersOf(s).length === 50, 'the load before')
  expect((await ready(flow)).status).toBe(200)

  await journal().faults.limitPages(100)
  // Some of it still fits.
  for (let n = 50; n < 1_000; n += 50) {
    load(worker, n, 50, 1_000)
    await new Promise(resolve => setImmediate(resolve))
  }
  await live.until(s => upstreamsOf(s).includes('journal_unavailable'), 'the status')
  expect(live.frames.findLast(f => f.event === 'status')?.data).toMatchObject({
    runtime: 'rt',
    upstream: 'journal_unavailable',
    code: 'disk_full',
  })
  expect(await ready(flow)).toMatchObject({ status: 503, journal: 'unavailable' })
  expect((await fetch(`${flow.shoji.url}/healthz`)).status).toBe(200)

  // What was shown so far stands in the file, as another process reads it.
  const shown = numbersOf(live).length
  const file = openJournalReadOnly(join(flow.shoji.directory, 'data'))
  const [stream] = await file.streams()
  const stored: number[] = []
  for (let after = asSeq(0); ; ) {
    const page = await file.readAfter([stream!.id], after, { maxRows: 1_000, maxBytes: 1e7 })
    for (const { event, payload } of page.entries)
      if (event === 'user_message')
        stored.push(Number.parseInt(JSON.parse(payload).data.segments[0].content, 10))
    after = page.through
    if (page.atHead) break
  }
  file.close()
  expect(shown).toBeLessThan(1_000)
  expect(stored).toEqual(upTo(stored.length))
  expect(stored.length).toBeGreaterThanOrEqual(shown)

  // One who comes meanwhile gets what is durable, and is told why there is no more.
  using late = await flow.open({ timeoutMs: 60_000 })
  await late.until(s => upstreamsOf(s).includes('journal_unavailable'), 'the status')
  expect(late.state.workers[`rt/${worker.id}`]?.state.items.length).toBeGreaterThan(0)

  await journal().faults.limitPages(null)
  await eventually(async () => (await ready(flow)).status === 200, 'ready again')
  load(worker, 1_000, 10, 100)
  await live.until(s => numbersOf(s).length >= 1_010, 'all of it')
  expect(numbersOf(live)).toEqual(upTo(1_010))
  expect(upstreamsOf(live)).toEqual(['journal_unavailable', 'live'])
  expect(live.frames.filter(f => f.event === 'reset' || f.event === 'gap' || f.event === 'bye')).toEqual([])
  await late.until(s => numbersOf(s).at(-1) === 1_009, 'all of it')
  const heard = numbersOf(late)
  expect(heard).toEqual(upTo(1_010).slice(-heard.length))
})

it('pauses its sockets while the disk is full for longer than memory holds, and then takes all of it in order', async () => {
  const { flow, journal } = await startWithJournal({ extra: 'limits: { ingest_bytes: 16MiB }' })
  await using _ = flow
  const { worker } = flow
  using live = await flow.open({ timeoutMs: 60_000 })
  await live.untilLive()
  await journal().faults.limitPages(0)
  const megabyte = 1024 * 1024
  load(worker, 0, 40, megabyte)
  await live.until(s => upstreamsOf(s).includes('journal_unavailable'), 'the status')
  // What one socket still delivers after it is paused is one chunk of its reads and the frame it ends.
  await eventually(() => worker.bufferedBytes > 0 || journal().queuedBytes > 16 * megabyte, 'memory is full')
  expect(journal().queuedBytes).toBeLessThan(24 * megabyte)
  await journal().faults.limitPages(null)
  await live.until(s => numbersOf(s).length >= 40, 'all of it')
  expect(numbersOf(live)).toEqual(upTo(40))
  expect(live.frames.filter(f => f.event === 'reset' || f.event === 'gap')).toEqual([])
  expect(journal().queuedBytes).toBeLessThan(megabyte)
})

it('goes on after a connection that was lost while the disk was full, by a proof or by an announced reset', async () => {
  const { flow, journal } = await startWithJournal()
  await using _ = flow
  const { worker } = flow
  using live = await flow.open({ timeoutMs: 60_000 })
  await live.untilLive()
  await journal().faults.limitPages(0)
  load(worker, 0, 3, 200_000)
  await live.until(s => upstreamsOf(s).includes('journal_unavailable'), 'the status')
  misbehave(flow.runtime).cut(worker.id)
  await flow.runtime.traffic.until(() => worker.observers.size === 1)
  await journal().faults.limitPages(null)
  await live.until(s => numbersOf(s).includes(2), 'what came before')
  tell(worker, '3 after it')
  await live.until(s => numbersOf(s).includes(3), 'what follows')
  expect(numbersOf(live)).toEqual(upTo(4))
  const reasons = live.frames.flatMap(f => (f.event === 'reset' ? [f.data.reason] : []))
  expect(['', 'upstream_unverifiable']).toContain(reasons.join())
})

it('stops within its grace while the disk is full, and has lost nothing that was ever shown', async () => {
  const { flow, journal } = await startWithJournal()
  await using _ = flow
  const { worker } = flow
  const live = await flow.open({ timeoutMs: 60_000 })
  await live.untilLive()
  load(worker, 0, 20, 100)
  await live.until(s => numbersOf(s).length === 20, 'the load before')
  await journal().faults.limitPages(0)
  load(worker, 20, 5, 200_000)
  await live.until(s => upstreamsOf(s).includes('journal_unavailable'), 'the status')
  const { position } = live
  const began = Date.now()
  await flow.restart({}, () => expect(Date.now() - began).toBeLessThan(10_000))
  expect(live.ended).toBe(true)
  using resumed = await flow.open({ lastEventId: position! }, live.state)
  // What was taken and never shown comes again from the Runtime, or its absence is announced.
  const announced = (s: TestStream): boolean => s.frames.some(f => f.event === 'reset')
  await resumed.until(s => s.state.live && (announced(s) || numbersOf(s).at(-1) === 24), 'the new life')
  expect(resumed.frames[0]?.data).toMatchObject({ outcome: 'resumed' })
  expect(live.state.workers[`rt/${worker.id}`]?.state.items).toHaveLength(20)
})

it('refuses to start on a damaged file, and says so', async () => {
  const directory = writeShojiFiles({ runtimes: [{ id: 'rt', url: 'http://127.0.0.1:9' }] })
  try {
    const first = await startShoji({ runtimes: [{ id: 'rt', url: 'http://127.0.0.1:9' }], directory })
    await first.stop()
    const path = join(directory, 'data', 'journal.db')
    const bytes = readFileSync(path)
    bytes.fill(0x5a, 0, 4_096)
    writeFileSync(path, bytes)
    await expect(
      startShoji({ runtimes: [{ id: 'rt', url: 'http://127.0.0.1:9' }], directory }),
    ).rejects.toMatchObject({ code: 'journal_damaged' })
    // It leaves the file as it was, for whoever repairs it.
    expect(readFileSync(path).equals(bytes)).toBe(true)
    using server = copyServer()
    const { code, err } = await serveOnce(server.main, join(directory, 'shoji.yaml'))
    expect(code).toBe(1)
    expect(err).toContain('journal_damaged')
    expect(err).not.toMatch(/at \w+ \(|node_modules/)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})

/** A server that is expected to end by itself. */
const serveOnce = (main: string, config: string): Promise<{ code: number | null; err: string }> =>
  new Promise(resolve => {
    const child = execFile(
      process.execPath,
      [main, 'serve', '--config', config],
      { env: { PATH: process.env.PATH }, timeout: 30_000 },
      (_error, _out, err) => resolve({ code: child.exitCode, err }),
    )
  })

it('case 90: of two servers on one data directory the second is refused, and the first goes on', async () => {
  using server = copyServer()
  await using flow = await startFlow()
  await flow.shoji.stop()
  const { directory } = flow.shoji
  const config = join(directory, 'shoji.yaml')
  const first = await startServerProcess(server.main, config)
  try {
    using viewer = await TestStream.open(`${first.url}/api/runtimes/rt/workers/${flow.worker.id}/events`, {
      token: TOKENS.admin,
      timeoutMs: 30_000,
    })
    await viewer.until(s => s.frames.some(f => f.event === 'snapshot'), 'the worker')
    const files = () => readdirSync(join(directory, 'data')).sort()
    const before = files()
    const { code, err } = await serveOnce(server.main, config)
    expect([code, err]).toEqual([1, expect.stringContaining('data_dir_locked')])
    expect(err.trim().split('\n')).toHaveLength(1)
    expect(files()).toEqual(before)
    tell(flow.worker, '1 still served')
    await viewer.until(s => said(s.frames).includes('1 still served'), 'the first server')
    expect((await fetch(`${first.url}/readyz`)).status).toBe(200)
  } finally {
    expect(await first.end('SIGTERM')).toBe(0)
  }
  const next = await startServerProcess(server.main, config)
  expect(await next.end('SIGTERM')).toBe(0)
})
