import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { ShojiError } from '../../lib/error.ts'
import { asSeq, asStreamId, type StreamId } from '../entry.ts'
import type { Journal, StreamRecord } from '../journal.ts'
import { Committer, FLUSH_LIMITS, type FlushLimits, type JournalEvents } from './committer.ts'
import { localLink, threadLink } from './link.ts'
import { lockDataDir } from './lock.ts'
import { ensureDataDir, fileBytes, JOURNAL_FILE, openFile, type RandomBytes } from './open-file.ts'
import type { Cut } from './protocol.ts'
import { createReader, openReading } from './reader.ts'

export interface JournalOptions {
  readonly dataDir: string
  /** False: the writer runs on the caller's thread and each commit blocks it. For tests. Default true. */
  readonly thread?: boolean
  readonly flush?: Partial<FlushLimits>
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  readonly random?: RandomBytes
  /** The WAL is kept under it, but for one larger transaction. Default 64 MiB. */
  readonly walCapBytes?: number
  /** Bounds of the quarantine. Default 1,000 frames and 32 MiB. */
  readonly quarantine?: { readonly maxFrames: number; readonly maxBytes: number }
  readonly events?: JournalEvents
  /** For tests and benches: the writer sleeps so long after each commit, as on a slow disk. */
  readonly syncDelayMs?: number
}

/** The embedded journal, with what only a file has. */
export interface SqliteJournal extends Journal {
  /** Makes a consistent copy, mode 0600, while entries go on being committed. */
  backup(path: string): Promise<void>
  readonly faults: {
    /** Bounds the file to its present size and `morePages`, so that writes fail as on a full disk; null lifts it. */
    limitPages(morePages: number | null): Promise<void>
    /** Ends the writer's thread as a crash would. */
    killWriter(): Promise<void>
  }
}

const WAL_CAP_BYTES = 64 * 1024 * 1024
const QUARANTINE = { maxFrames: 1000, maxBytes: 32 * 1024 * 1024 }
const SLICE_ROWS = 500
/** Pages given back in one slice; they are moved one by one, within a transaction. */
const SHRINK_PAGES = 256

/**
 * Opens the journal of a directory and holds it until `close`, or the end of the process. Rejects with
 * `data_dir_locked` at once where another holds it; `data_dir_unusable`, `journal_newer`, `journal_damaged`
 * or `disk_full` where it can't be opened.
 */
export const openJournal = async (options: JournalOptions): Promise<SqliteJournal> => {
  const now = options.now ?? Date.now
  ensureDataDir(options.dataDir)
  const lock = lockDataDir(options.dataDir)
  try {
    const opened = openFile(options.dataDir, now(), options.random ?? randomBytes)
    return assemble(options, opened, now, lock.release)
  } catch (error) {
    lock.release()
    throw error
  }
}

const assemble = (
  options: JournalOptions,
  opened: ReturnType<typeof openFile>,
  now: () => number,
  release: () => void,
): SqliteJournal => {
  const path = join(options.dataDir, JOURNAL_FILE)
  const writerOptions = {
    path,
    walCapBytes: options.walCapBytes ?? WAL_CAP_BYTES,
    syncDelayMs: options.syncDelayMs ?? 0,
    quarantine: options.quarantine ?? QUARANTINE,
  }
  const link = options.thread === false ? localLink(writerOptions) : threadLink(writerOptions)
  const committer = new Committer({
    link,
    head: opened.last,
    limits: { ...FLUSH_LIMITS, ...options.flush },
    now,
    events: options.events ?? {},
    onDurable: batch => {
      for (const { stream, incarnation } of batch.incarnations ?? []) change(stream, { incarnation })
    },
  })
  const streams = new Map<StreamId, StreamRecord>(opened.streams.map(stream => [stream.id, stream]))
  const change = (stream: StreamId, part: Partial<StreamRecord>): void => {
    const record = streams.get(stream)
    if (record !== undefined) streams.set(stream, { ...record, ...part })
  }
  const reader = createReader(openReading(path), {
    head: () => committer.head,
    lastDeleted: stream => streams.get(stream)?.lastDeleted ?? asSeq(0),
    damaged: () => committer.damaged(),
  })
  let closing: Promise<void> | undefined

  const refuseClosed = (): void => {
    if (closing !== undefined) throw new ShojiError('journal_closed', 'the journal is closed')
  }

  /** Readers stop looking at what goes before the first of it is gone. */
  const cutAway = async (cut: Cut, rows: number): Promise<number> => {
    const stream = asStreamId(cut.stream)
    const before = streams.get(stream)?.lastDeleted ?? 0
    change(stream, { lastDeleted: asSeq(Math.max(before, cut.upTo)) })
    for (let deleted = 0; ; ) {
      refuseClosed()
      const slice = await link.send('cut', { cut, rows })
      deleted += slice.deleted
      if (slice.done) return deleted
    }
  }

  const shrink = async (): Promise<void> => {
    for (let left = Number.POSITIVE_INFINITY; ; ) {
      refuseClosed()
      const slice = await link.send('shrink', { pages: SHRINK_PAGES })
      if (slice.left === 0 || slice.left >= left) return
      left = slice.left
    }
  }

  return {
    firstSeq: asSeq(opened.last + 1),
    generations: opened.generations,
    keys: opened.keys,
    get head() {
      return committer.head
    },
    get queuedBytes() {
      return committer.queuedBytes
    },
    get health() {
      return committer.health
    },

    streams: async () => [...streams.values()],
    openStream: async (ref, profile) => {
      refuseClosed()
      const known = [...streams.values()].find(
        stream =>
          stream.source === ref.source && stream.runtime === ref.runtime && stream.worker === ref.worker,
      )
      if (known !== undefined) return known
      const { source, runtime, worker } = ref
      const found = await link.send('openStream', { ref: { source, runtime, worker }, profile })
      const id = asStreamId(found.id)
      const record = streams.get(id) ?? {
        ...{ source, runtime, worker, id },
        profile: found.profile,
        incarnation: found.incarnation,
        lastDeleted: asSeq(found.lastDeleted),
      }
      streams.set(id, record)
      return record
    },
    setProfile: async (stream, profile) => {
      refuseClosed()
      await link.send('setProfile', { stream, profile })
      change(stream, { profile })
    },

    append: batch => committer.append(batch),
    durable: (seq, signal) => committer.durable(seq, signal),
    changedSince: (seq, signal) => committer.changedSince(seq, signal),
    onCommit: listener => committer.onCommit(listener),
    onHealth: listener => committer.onHealth(listener),

    readAfter: reader.readAfter,
    readEntry: reader.readEntry,
    readMarks: reader.readMarks,
    readItem: reader.readItem,
    readReplacing: reader.readReplacing,
    readCheckpoint: reader.readCheckpoint,
    readPosition: reader.readPosition,

    quarantine: async frame => {
      refuseClosed()
      await link.send('quarantine', { frame })
    },
    readQuarantine: reader.readQuarantine,

    retain: async (rules, at) => {
      const rows = rules.sliceRows ?? SLICE_ROWS
      let deleted = 0
      for (const by of ['age', 'size'] as const) {
        refuseClosed()
        for (const cut of await link.send('plan', { by, rules, now: at })) deleted += await cutAway(cut, rows)
      }
      if (rules.maxAgeMs !== undefined)
        await link.send('forget', { before: at - rules.maxAgeMs, runtime: rules.runtime ?? null })
      if (deleted > 0) await shrink()
      return { deleted }
    },
    purge: async stream => {
      refuseClosed()
      const upTo = Math.max(await reader.newest(stream), streams.get(stream)?.lastDeleted ?? 0)
      await cutAway({ stream, upTo, erase: true }, SLICE_ROWS)
      await link.send('forget', { stream })
      await shrink()
      await link.send('checkpoint', {})
    },
    stats: async () => ({
      ...(await reader.totals()),
      streams: streams.size,
      fileBytes: fileBytes(path),
      walBytes: fileBytes(`${path}-wal`),
      head: committer.head,
      ...committer.counts,
    }),

    backup: async destination => {
      refuseClosed()
      await link.send('backup', { path: destination })
    },
    faults: {
      limitPages: async morePages => {
        const { pages } = await link.send('limitPages', { pages: 0 })
        if (morePages !== null) await link.send('limitPages', { pages: pages + morePages })
      },
      killWriter: () => link.kill(),
    },

    close: () => {
      closing ??= (async () => {
        try {
          await committer.close()
          await link.close()
        } finally {
          reader.close()
          release()
        }
      })()
      return closing
    },
  }
}
