import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { journalSuite } from '../../../test/suites/journal-suite.ts'
import { asSeq, type Entry, type Seq } from '../entry.ts'
import type { JournalHealth, StreamRecord } from '../journal.ts'
import { type JournalOptions, openJournal, type SqliteJournal } from './journal.ts'
import { lockDataDir } from './lock.ts'
import { openFile } from './open-file.ts'
import { openJournalReadOnly } from './read-only.ts'
import { type Flattened, flatten } from './rows.ts'
import { verifyJournal } from './verify.ts'
import { Writer } from './writer.ts'

const newDir = (): string => mkdtempSync(join(tmpdir(), 'shoji-journal-'))

for (const thread of [true, false])
  journalSuite(thread ? 'SQLite with a writer thread' : 'SQLite on one thread', async () => {
    const dataDir = newDir()
    let journal = await openJournal({ dataDir, thread })
    return {
      journal,
      reopen: async () => {
        await journal.close()
        journal = await openJournal({ dataDir, thread })
        return journal
      },
      dispose: async () => {
        await journal.close()
        rmSync(dataDir, { recursive: true })
      },
    }
  })

describe('the SQLite journal', () => {
  let dataDir: string
  let journals: SqliteJournal[]

  beforeEach(() => {
    dataDir = newDir()
    journals = []
  })
  afterEach(async () => {
    for (const journal of journals) await journal.close()
    rmSync(dataDir, { recursive: true, force: true })
  })

  const file = (): string => join(dataDir, 'journal.db')
  const open = async (options: Partial<JournalOptions> = {}): Promise<SqliteJournal> => {
    const journal = await openJournal({ dataDir, ...options })
    journals.push(journal)
    return journal
  }
  const stream = (journal: SqliteJournal, worker = 'w'): Promise<StreamRecord> =>
    journal.openStream({ source: 'runtime', runtime: 'rt', worker }, null)
  const entry = (of: StreamRecord, seq: number, part: Partial<Entry> = {}): Entry => ({
    ...{
      seq: asSeq(seq),
      stream: of.id,
      incarnation: 0,
      time: 1_000,
      event: 'text_delta',
      eventId: `e${seq}`,
    },
    ...{ payload: `{"event":"text_delta","data":{"delta":"${seq}"}}`, context: {}, mark: false },
    ...part,
  })
  const seqsOf = async (journal: Pick<SqliteJournal, 'readAfter'>, of: StreamRecord): Promise<number[]> => {
    const page = await journal.readAfter([of.id], asSeq(0), { maxRows: 100_000, maxBytes: 1e9 })
    return page.entries.map(e => e.seq)
  }
  const health = (journal: SqliteJournal, state: JournalHealth['state']): Promise<JournalHealth> =>
    new Promise(resolve => {
      if (journal.health.state === state) return resolve(journal.health)
      const stop = journal.onHealth(now => {
        if (now.state !== state) return
        stop()
        resolve(now)
      })
    })
  const fill = async (
    journal: SqliteJournal,
    of: StreamRecord,
    count: number,
    bytes: number,
  ): Promise<Seq> => {
    const payload = 'x'.repeat(bytes)
    const first = journal.head + 1
    for (let i = 0; i < count; i++) journal.append({ entries: [entry(of, first + i, { payload })] })
    const last = asSeq(first + count - 1)
    await journal.durable(last)
    return last
  }

  describe('holding its directory', () => {
    it('refuses a second server at once, and lets the next one in after the first (case 90)', async () => {
      const first = await open()
      await expect(openJournal({ dataDir })).rejects.toMatchObject({ code: 'data_dir_locked' })
      // The refusal has not loosened the lock.
      await expect(openJournal({ dataDir })).rejects.toMatchObject({ code: 'data_dir_locked' })
      await first.close()
      await open()
    })

    it('gives the lock back when opening fails', async () => {
      writeFileSync(file(), 'this is not a database, and long enough to be looked at. '.repeat(40))
      await expect(openJournal({ dataDir })).rejects.toMatchObject({ code: 'journal_damaged' })
      lockDataDir(dataDir).release()
    })

    it('keeps its files to itself', async () => {
      rmSync(dataDir, { recursive: true })
      const journal = await open()
      await fill(journal, await stream(journal), 10, 10)
      expect(statSync(dataDir).mode & 0o777).toBe(0o700)
      const files = readdirSync(dataDir)
      expect(files).toEqual(
        expect.arrayContaining(['journal.db', 'journal.db-wal', 'journal.db-shm', 'lock.db']),
      )
      for (const name of files)
        expect([name, statSync(join(dataDir, name)).mode & 0o777]).toEqual([name, 0o600])
    })

    it('says so where the directory cannot be used', async () => {
      writeFileSync(join(dataDir, 'file'), '')
      await expect(openJournal({ dataDir: join(dataDir, 'file', 'below') })).rejects.toMatchObject({
        code: 'data_dir_unusable',
      })
    })

    it('refuses a journal of a newer release and leaves it as it is', async () => {
      await (await open()).close()
      const database = new Database(file())
      database.exec("INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('later', 99999999999999)")
      database.close()
      await expect(openJournal({ dataDir })).rejects.toMatchObject({ code: 'journal_newer' })
      expect(() => openJournalReadOnly(dataDir)).toThrow(expect.objectContaining({ code: 'journal_newer' }))
    })
  })

  describe('a full disk', () => {
    it('publishes nothing, keeps the order, and goes on when there is room again', async () => {
      const journal = await open({ flush: { retryMinMs: 5, retryMaxMs: 20 } })
      const w = await stream(journal)
      await fill(journal, w, 1, 10)
      const told: number[] = []
      journal.onCommit(commit => told.push(...commit.entries.map(e => e.seq)))
      const states: string[] = []
      journal.onHealth(now => states.push(now.state === 'ok' ? 'ok' : now.code))

      await journal.faults.limitPages(0)
      const payload = 'x'.repeat(50_000)
      for (let seq = 2; seq < 12; seq++) journal.append({ entries: [entry(w, seq, { payload })] })
      expect(await health(journal, 'unavailable')).toMatchObject({ code: 'disk_full' })
      journal.append({ entries: [entry(w, 12)] })
      await expect(stream(journal, 'w'.repeat(5_000))).rejects.toMatchObject({ code: 'disk_full' })
      expect(journal.head).toBe(1)
      expect(journal.queuedBytes).toBeGreaterThan(500_000)
      expect(told).toEqual([])
      expect(await seqsOf(journal, w)).toEqual([1])

      await journal.faults.limitPages(null)
      await journal.durable(asSeq(12))
      expect(told).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
      expect(states).toEqual(['disk_full', 'ok'])
      expect(journal.queuedBytes).toBe(0)
      await journal.close()
      expect(verifyJournal(dataDir)).toMatchObject({ ok: true, entries: 12 })
    })

    it('can be closed while it lasts', async () => {
      const journal = await open()
      const w = await stream(journal)
      await journal.faults.limitPages(0)
      journal.append({ entries: [entry(w, 1, { payload: 'x'.repeat(100_000) })] })
      await health(journal, 'unavailable')
      const durable = journal.durable(asSeq(1))
      const settled = Promise.allSettled([durable])
      await journal.close()
      expect(await settled).toMatchObject([{ status: 'rejected', reason: { code: 'journal_closed' } }])
    })
  })

  describe('damage', () => {
    it('is told on opening a file that was overwritten', async () => {
      const journal = await open()
      await fill(journal, await stream(journal), 10, 10)
      await journal.close()
      writeFileSync(file(), Buffer.alloc(statSync(file()).size, 7))
      await expect(openJournal({ dataDir })).rejects.toMatchObject({ code: 'journal_damaged' })
    })

    it('is told on reading, and makes the journal unavailable until a restart', async () => {
      const journal = await open()
      const w = await stream(journal)
      await fill(journal, w, 200, 2_000)
      await journal.close()
      const leaf = pageOf(
        file(),
        'SELECT pageno FROM dbstat WHERE name = ? AND pagetype = ? LIMIT 1 OFFSET 20',
        'entries',
        'leaf',
      )
      await overwritePage(file(), leaf)
      const again = await open()
      await expect(seqsOf(again, w)).rejects.toMatchObject({ code: 'journal_damaged' })
      expect(again.health).toMatchObject({ state: 'unavailable', code: 'journal_damaged' })
      expect(verifyJournal(dataDir).ok).toBe(false)
    })

    it('on writing stops publishing, and is not forgotten', async () => {
      const journal = await open({ flush: { retryMaxMs: 10 } })
      const w = await stream(journal)
      await fill(journal, w, 200, 2_000)
      await journal.close()
      const root = pageOf(file(), 'SELECT rootpage FROM sqlite_master WHERE name = ?', 'entries_stream')
      await overwritePage(file(), root)
      const again = await open({ flush: { retryMaxMs: 10 } })
      again.append({ entries: [entry(w, again.firstSeq)] })
      expect(await health(again, 'unavailable')).toMatchObject({ code: 'journal_damaged' })
      expect(again.head).toBe(200)
    })
  })

  describe('a crash', () => {
    it('of the writer loses nothing, doubles nothing and is got over', async () => {
      const journal = await open({ flush: { flushMs: 1, retryMinMs: 5 } })
      const w = await stream(journal)
      const told: number[] = []
      journal.onCommit(commit => told.push(...commit.entries.map(e => e.seq)))
      let seq = 0
      for (let round = 0; round < 10; round++) {
        for (let i = 0; i < 50; i++) {
          journal.append({ entries: [entry(w, ++seq)] })
          if (i % 10 === 0) await new Promise(resolve => setImmediate(resolve))
        }
        await journal.faults.killWriter()
      }
      await journal.durable(asSeq(seq))
      const all = Array.from({ length: seq }, (_, i) => i + 1)
      expect(told).toEqual(all)
      expect(await seqsOf(journal, w)).toEqual(all)
      expect((await journal.stats()).repeated).toBe(0)
      expect(journal.health.state).toBe('ok')
      await journal.close()
      expect(verifyJournal(dataDir)).toMatchObject({ ok: true, entries: seq, problems: [] })
    })

    it('between a commit and its answer changes nothing when the batch is told again', async () => {
      const path = file()
      openFile(dataDir, 0)
      const limits = { maxFrames: 9, maxBytes: 9 }
      const writer = new Writer({ path, walCapBytes: 1e6, syncDelayMs: 0, quarantine: limits })
      await writer.handle({
        kind: 'openStream',
        ref: { source: 'runtime', runtime: 'r', worker: 'w' },
        profile: null,
      })
      const w = { id: 1 } as unknown as StreamRecord
      const commit = async (entries: Entry[]) => {
        const flat: Flattened = { cells: [], checkpoints: [] }
        flatten({ entries }, flat, () => 0)
        return writer.handle({ kind: 'commit', ...flat, incarnations: [], positions: [] })
      }
      await commit([entry(w, 1)])
      const batch = [entry(w, 2), entry(w, 3, { eventId: 'e1' }), entry(w, 4)]
      expect(await commit(batch)).toMatchObject({ repeated: [3] })
      expect(await commit(batch)).toMatchObject({ repeated: [3] })
      writer.close()
      expect(verifyJournal(dataDir)).toMatchObject({ ok: true, entries: 3, problems: [] })
    })

    it('of the process loses nothing that was told durable (case 4)', { timeout: 60_000 }, async () => {
      let told = 0
      for (let round = 0; round < 4; round++) {
        const child = spawn(
          process.execPath,
          ['test/_support/run-typescript.mjs', 'test/_support/journal-child.ts', dataDir],
          { stdio: ['ignore', 'pipe', 'inherit'] },
        )
        told = await killAfter(child, told + 200 + round * 137)
        // The kernel has let go of the lock with the process, and nothing of it has to be cleared.
        const journal = await open()
        const w = await stream(journal)
        const seqs = await seqsOf(journal, w)
        expect(seqs.length).toBeGreaterThanOrEqual(told)
        expect(seqs).toEqual(Array.from({ length: seqs.length }, (_, i) => i + 1))
        expect(journal.head).toBe(seqs.length)
        expect(journal.generations).toHaveLength(2 * round + 2)
        await journal.close()
      }
      expect(verifyJournal(dataDir)).toMatchObject({ ok: true, problems: [] })
    })
  })

  describe('the file', () => {
    it('shrinks again when entries are deleted', async () => {
      const journal = await open()
      const w = await stream(journal)
      const last = await fill(journal, w, 3_000, 2_000)
      journal.append({ entries: [], checkpoints: [{ stream: w.id, seq: last, version: 1, state: '{}' }] })
      await fill(journal, w, 1, 10)
      expect((await journal.retain({ maxAgeMs: 1 }, 1_000_000)).deleted).toBe(3_001)
      await journal.close()
      expect(statSync(file()).size).toBeLessThan(500_000)
    })

    it('finishes a cut that an earlier process left half done, and shows nothing of it', async () => {
      const journal = await open()
      const w = await stream(journal)
      await fill(journal, w, 100, 10)
      await journal.close()
      const database = new Database(file())
      database.exec('UPDATE streams SET last_deleted = 60')
      database.close()
      const again = await open()
      expect(await seqsOf(again, w)).toEqual(Array.from({ length: 40 }, (_, i) => 61 + i))
      expect(await again.readEntry(asSeq(60))).toBeNull()
      expect(await again.retain({}, 0)).toEqual({ deleted: 60 })
      expect(await seqsOf(again, w)).toHaveLength(40)
    })

    it('keeps its WAL under the cap while readers never rest (case 66)', async () => {
      const walCapBytes = 1024 * 1024
      const journal = await open({ walCapBytes })
      const w = await stream(journal)
      const done = new AbortController()
      let largest = 0
      const readers = Array.from({ length: 50 }, async (_, i) => {
        for (let position = asSeq(i); !done.signal.aborted; ) {
          const page = await journal.readAfter([w.id], position, { maxRows: 20, maxBytes: 1e6 })
          position = page.atHead ? asSeq(0) : page.through
          await new Promise(resolve => setImmediate(resolve))
        }
      })
      journal.onCommit(() => {
        largest = Math.max(largest, statSync(`${file()}-wal`).size)
      })
      for (let i = 0; i < 60; i++) await fill(journal, w, 100, 1_000)
      done.abort()
      await Promise.all(readers)
      expect(largest).toBeGreaterThan(0)
      expect(largest).toBeLessThanOrEqual(walCapBytes)
    })

    it('is copied whole while entries go on being committed', async () => {
      const journal = await open()
      const w = await stream(journal)
      await fill(journal, w, 2_000, 1_000)
      const target = join(newDir(), 'journal.db')
      const copied = journal.backup(target)
      const writing = fill(journal, w, 500, 1_000)
      await copied
      await writing
      expect(statSync(target).mode & 0o777).toBe(0o600)
      const copy = openJournalReadOnly(join(target, '..'))
      const seqs = await seqsOf(copy, w)
      copy.close()
      expect(seqs.length).toBeGreaterThanOrEqual(2_000)
      expect(seqs).toEqual(Array.from({ length: seqs.length }, (_, i) => i + 1))
      expect(verifyJournal(join(target, '..')).problems).toEqual([])
      rmSync(join(target, '..'), { recursive: true })
    })

    it('is read beside a running server, without its lock', async () => {
      const journal = await open()
      const w = await stream(journal)
      await fill(journal, w, 5, 10)
      const reading = openJournalReadOnly(dataDir)
      expect(reading.head).toBe(5)
      expect(await reading.streams()).toEqual(await journal.streams())
      expect(reading.keys).toEqual(journal.keys)
      await fill(journal, w, 5, 10)
      expect(await seqsOf(reading, w)).toHaveLength(10)
      expect(await reading.stats()).toMatchObject({ entries: 10, streams: 1, head: 10 })
      reading.close()
      expect(() => openJournalReadOnly(join(dataDir, 'none'))).toThrow(
        expect.objectContaining({ code: 'data_dir_unusable' }),
      )
    })

    it('is checked for what must hold of its rows', async () => {
      const journal = await open()
      const w = await stream(journal)
      await fill(journal, w, 5, 10)
      await journal.close()
      expect(verifyJournal(dataDir)).toEqual({ ok: true, entries: 5, streams: 1, problems: [] })
      const database = new Database(file())
      database.exec(
        "UPDATE entries SET context = '{' WHERE seq = 2; UPDATE entries SET item_seq = 9 WHERE seq = 3",
      )
      database.exec('UPDATE streams SET entries = 4; DELETE FROM entries WHERE seq = 5')
      database.exec('UPDATE generations SET first = 3')
      database.close()
      const { ok, problems } = verifyJournal(dataDir)
      expect(ok).toBe(false)
      expect(problems.join('\n')).toMatch(/not an object \(2\)[\s\S]*behind the entry that touches it \(3\)/)
      expect(problems.join('\n')).toMatch(/before every generation \(1\)/)
    })

    it('bounds its quarantine, the oldest going first', async () => {
      const journal = await open({ quarantine: { maxFrames: 3, maxBytes: 1_000 } })
      const w = await stream(journal)
      const frame = { stream: w.id, time: 1, cause: 'malformed', bytes: 5 } as const
      for (let i = 0; i < 6; i++) await journal.quarantine({ ...frame, body: `${i}` })
      expect((await journal.readQuarantine(99)).map(one => one.body)).toEqual(['5', '4', '3'])
      await journal.quarantine({ ...frame, body: 'x'.repeat(999) })
      expect(await journal.readQuarantine(99)).toHaveLength(2)
    })
  })

  describe('group commit', () => {
    it('commits together what is appended together, and what gathers behind a slow disk', async () => {
      const journal = await open({ syncDelayMs: 30 })
      const w = await stream(journal)
      const sizes: number[] = []
      journal.onCommit(commit => sizes.push(commit.entries.length))
      for (let seq = 1; seq <= 100; seq++) journal.append({ entries: [entry(w, seq)] })
      await new Promise<void>(resolve => journal.onCommit(() => resolve()))
      expect(sizes).toEqual([100])
    })

    it('does not wait where enough is gathered', async () => {
      const journal = await open({ flush: { flushMs: 60_000, maxFlushMs: 60_000, flushEntries: 10 } })
      const w = await stream(journal)
      for (let seq = 1; seq <= 10; seq++) journal.append({ entries: [entry(w, seq)] })
      await journal.durable(asSeq(10))
    })

    it('bounds a transaction, but never divides what was appended at once', async () => {
      const journal = await open({ flush: { flushMs: 1, maxBatchEntries: 4, flushEntries: 3 } })
      const w = await stream(journal)
      const sizes: number[] = []
      journal.onCommit(commit => sizes.push(commit.entries.length))
      const batch = (from: number, count: number) =>
        journal.append({ entries: Array.from({ length: count }, (_, i) => entry(w, from + i)) })
      batch(1, 3)
      batch(4, 3)
      batch(7, 3)
      batch(10, 9)
      await journal.durable(asSeq(18))
      expect(sizes).toEqual([3, 3, 3, 9])
    })

    it('shows no reader what is written and not yet told durable', async () => {
      const journal = await open({ syncDelayMs: 50 })
      const w = await stream(journal)
      const beside = openJournalReadOnly(dataDir)
      journal.append({ entries: [entry(w, 1, { context: { replaces: true }, mark: true })] })
      // Another connection sees the commit while the disk is still busy with it.
      while ((await seqsOf(beside, w)).length === 0) await new Promise(resolve => setImmediate(resolve))
      beside.close()
      const limits = { maxRows: 9, maxBytes: 9 }
      expect(journal.head).toBe(0)
      expect(await seqsOf(journal, w)).toEqual([])
      expect(await journal.readEntry(asSeq(1))).toBeNull()
      expect(await journal.readMarks(w.id, asSeq(9), asSeq(0), limits)).toEqual([])
      expect(await journal.readReplacing(w.id, asSeq(9))).toBeNull()
      await journal.durable(asSeq(1))
      expect(await seqsOf(journal, w)).toEqual([1])
    })

    it('does not block the loop of the main thread while the disk is slow', async () => {
      const journal = await open({ syncDelayMs: 100 })
      const w = await stream(journal)
      let turns = 0
      journal.append({ entries: [entry(w, 1)] })
      let durable = false
      const wait = journal.durable(asSeq(1)).then(() => {
        durable = true
      })
      while (!durable) {
        turns++
        await new Promise(resolve => setImmediate(resolve))
      }
      await wait
      expect(turns).toBeGreaterThan(100)
    })
  })
})

const pageOf = (path: string, sql: string, ...names: string[]): number => {
  const database = new Database(path)
  const page = database
    .prepare<string[], number>(sql)
    .pluck()
    .get(...names)
  database.close()
  if (page === undefined) throw new Error('no such page')
  return page
}

const overwritePage = async (path: string, page: number): Promise<void> => {
  const { open } = await import('node:fs/promises')
  const handle = await open(path, 'r+')
  await handle.write(Buffer.alloc(4096, 0xff), 0, 4096, (page - 1) * 4096)
  await handle.close()
}

/** Kills the child once it has told `target` durable. Returns the last position that it told. */
const killAfter = async (child: ChildProcess, target: number): Promise<number> => {
  const exited = once(child, 'exit')
  let told = 0
  if (child.stdout === null) throw new Error('the child has no output')
  for await (const line of createInterface(child.stdout)) {
    told = Number(line)
    if (told >= target) child.kill('SIGKILL')
  }
  await exited
  if (told < target) throw new Error(`the child ended at ${told}`)
  return told
}
