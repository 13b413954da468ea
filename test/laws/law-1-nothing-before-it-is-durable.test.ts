import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, expect, it } from 'vitest'
import { type Cursors, createCursors } from '../../src/journal/cursor.ts'
import type { Entry } from '../../src/journal/entry.ts'
import { createIngest, type Ingest } from '../../src/journal/ingest.ts'
import { openJournal, type SqliteJournal } from '../../src/journal/sqlite/journal.ts'
import type { StreamWriter } from '../../src/journal/way-in.ts'
import { runs } from './_world.ts'

/** What a viewer holds: an id it was sent, and the envelope that id stood on. */
interface Seen {
  readonly cursor: string
  readonly payload: string
  readonly stream: string
}

const TAG = Buffer.from([1, 2, 3, 4])
const directories: string[] = []
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true })
})
const newDirectory = (): string => {
  const directory = mkdtempSync(join(tmpdir(), 'shoji-law1-'))
  directories.push(directory)
  return directory
}

/** One life of a server: a journal, its ingest, and what its viewers were sent. */
class Life {
  readonly journal: SqliteJournal
  readonly cursors: Cursors
  readonly writer: StreamWriter

  /** The process has ended: whatever its files do now, nobody is told any more. */
  over = false
  readonly #ingest: Ingest

  private constructor(journal: SqliteJournal, ingest: Ingest, writer: StreamWriter, seen: Seen[]) {
    this.journal = journal
    this.#ingest = ingest
    this.writer = writer
    this.cursors = createCursors({
      key: journal.keys.cursor,
      generations: () => journal.generations,
      head: () => journal.head,
    })
    journal.onCommit(({ entries }) => {
      if (this.over) return
      for (const entry of entries)
        seen.push({
          cursor: this.cursors.encode(entry.seq, TAG),
          payload: entry.payload,
          stream: identity(journal),
        })
    })
  }

  static async begin(directory: string, seen: Seen[]): Promise<Life> {
    const journal = await openJournal({ dataDir: directory, thread: false })
    const ingest = await createIngest({ journal })
    const writer = await ingest.open({ source: 'runtime', runtime: 'rt', worker: 'w' }, null)
    return new Life(journal, ingest, writer, seen)
  }

  settled(): Promise<void> {
    return this.journal.durable(this.#ingest.position)
  }
}

/** Journals with equal keys are one journal, put back or not. */
const identity = (journal: SqliteJournal): string => journal.keys.cursor.toString('hex')

type Op =
  | { readonly op: 'say'; readonly events: number }
  | { readonly op: 'crash' }
  | { readonly op: 'backup' }
  | { readonly op: 'restore' }
  | { readonly op: 'replace' }

const anyOp: fc.Arbitrary<Op> = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 6 }).map((events): Op => ({ op: 'say', events })) },
  { weight: 3, arbitrary: fc.constant<Op>({ op: 'crash' }) },
  { weight: 1, arbitrary: fc.constant<Op>({ op: 'backup' }) },
  { weight: 1, arbitrary: fc.constant<Op>({ op: 'restore' }) },
  { weight: 1, arbitrary: fc.constant<Op>({ op: 'replace' }) },
)

it('a cursor that was seen names the same envelope after a crash, a restored backup and a new journal, or nothing', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyOp, { minLength: 2, maxLength: 12 }), async ops => {
      const seen: Seen[] = []
      let directory = newDirectory()
      let life = await Life.begin(directory, seen)
      let backup: string | null = null
      let lost = false
      let said = 0
      for (const op of ops) {
        if (op.op === 'say') {
          for (let i = 0; i < op.events; i++) {
            const payload = JSON.stringify({ event: 'text_delta', data: { text: `t${said++}` } })
            life.writer.accept({ eventId: `e${said}`, payload, time: said })
          }
          if (op.events % 2 === 0) await life.settled()
        } else if (op.op === 'backup') {
          backup = newDirectory()
          copyImage(directory, backup)
        } else {
          // The image is what a kill or a power loss leaves: the files as they are, with whatever is in flight lost.
          const next = newDirectory()
          life.over = true
          if (op.op === 'crash') copyImage(directory, next)
          else if (op.op === 'restore' && backup !== null) {
            copyImage(backup, next)
            lost = true
          } else if (op.op === 'replace') lost = true
          await life.journal.close()
          directory = next
          life = await Life.begin(directory, seen)
        }
        await check(life, seen, lost)
      }
      await life.journal.close()
    }),
    runs(60),
  )
})

async function check({ journal, cursors }: Life, seen: readonly Seen[], lost: boolean): Promise<void> {
  for (const { cursor, payload, stream } of seen) {
    const decoded = cursors.decode(cursor, TAG)
    if (!decoded.ok) {
      expect(lost || stream !== identity(journal), 'refused without a loss').toBe(true)
      continue
    }
    const entry: Entry | null = await journal.readEntry(decoded.seq)
    expect(entry?.payload).toBe(payload)
  }
}

function copyImage(from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  for (const name of ['journal.db', 'journal.db-wal'])
    if (existsSync(join(from, name))) copyFileSync(join(from, name), join(to, name))
}

it('nobody is told of an entry before it can be read from the file by another process', async () => {
  const directory = newDirectory()
  const journal = await openJournal({ dataDir: directory })
  const ingest = await createIngest({ journal })
  const writer = await ingest.open({ source: 'runtime', runtime: 'rt', worker: 'w' }, null)
  const images: Promise<void>[] = []
  journal.onCommit(({ entries }) => {
    if (images.length >= 10) return
    const image = newDirectory()
    copyImage(directory, image)
    images.push(
      (async () => {
        const other = await openJournal({ dataDir: image, thread: false })
        for (const entry of entries) expect((await other.readEntry(entry.seq))?.payload).toBe(entry.payload)
        await other.close()
      })(),
    )
  })
  for (let i = 0; i < 200; i++) {
    writer.accept({
      eventId: `e${i}`,
      payload: JSON.stringify({ event: 'text_delta', data: { text: `${i}` } }),
      time: i,
    })
    if (i % 20 === 0) await journal.durable(ingest.position)
  }
  await journal.durable(ingest.position)
  await Promise.all(images)
  expect(images.length).toBeGreaterThan(3)
  await journal.close()
})
