import { existsSync } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { asSeq, type Entry } from '../journal/entry.ts'
import { backupTo } from '../journal/sqlite/backup.ts'
import { openJournalReadOnly } from '../journal/sqlite/read-only.ts'
import { verifyJournal } from '../journal/sqlite/verify.ts'
import { type CliCommands, type CliIo, EXIT, type JournalRequest } from './run.ts'

const PAGE = { maxRows: 1000, maxBytes: 1024 * 1024 }

/** Counts and sizes as one JSON object. */
const stats = async ({ config }: JournalRequest, io: CliIo): Promise<number> => {
  const journal = openJournalReadOnly(config.dataDir)
  try {
    const { entries, streams, head, quarantined, fileBytes, walBytes } = await journal.stats()
    const told = { entries, streams, head, quarantined, file_bytes: fileBytes, wal_bytes: walBytes }
    io.stdout.write(`${JSON.stringify(told, null, 2)}\n`)
    return EXIT.done
  } finally {
    journal.close()
  }
}

/** One line a finding; ends with 1 where there is one. */
const verify = async ({ config }: JournalRequest, io: CliIo): Promise<number> => {
  const { ok, entries, streams, problems } = verifyJournal(config.dataDir)
  for (const problem of problems) io.stderr.write(`shoji: ${problem}\n`)
  io.stdout.write(`${ok ? 'sound' : 'not sound'}: ${entries} entries of ${streams} streams\n`)
  return ok ? EXIT.done : EXIT.failed
}

/**
 * A consistent copy, in one step: from a connection other than the writer's each commit between two steps
 * would begin it anew. The WAL of a running server grows until the copy is made.
 */
const backup = async ({ config, out = '' }: JournalRequest, io: CliIo): Promise<number> => {
  // The copy takes its name by rename, which would replace even the journal itself.
  if (existsSync(out)) return refuse(`${out} exists already`, io)
  const journal = openJournalReadOnly(config.dataDir)
  try {
    return await writing(out, io, async () => {
      await backupTo(journal.database, out, Number.POSITIVE_INFINITY)
      io.stderr.write(`copied to ${out}\n`)
    })
  } finally {
    journal.close()
  }
}

/** The entries of one worker as they are stored, up to the head as it was at the start. */
const exportWorker = async ({ config, worker = '', out }: JournalRequest, io: CliIo): Promise<number> => {
  const journal = openJournalReadOnly(config.dataDir)
  try {
    const named = (await journal.streams()).filter(stream => `${stream.runtime}/${stream.worker}` === worker)
    const ids = named.map(({ id }) => id)
    if (ids.length === 0) {
      io.stderr.write(`shoji: the journal knows no worker ${worker}\n`)
      return EXIT.failed
    }
    const deleted = Math.max(...named.map(({ lastDeleted }) => lastDeleted))
    if (deleted > 0) io.stderr.write(`shoji: what lay before position ${deleted + 1} is no longer kept\n`)
    const end = journal.head
    const pages = async (write: (text: string) => unknown): Promise<void> => {
      for (let after = asSeq(0); after < end; ) {
        const page = await journal.readAfter(ids, after, PAGE)
        const lines = page.entries.filter(({ seq }) => seq <= end).map(lineOf)
        if (lines.length > 0) await write(lines.join(''))
        if (page.atHead) return
        after = page.through
        // A read never leaves the turn; without this no signal would be seen before the end.
        await nextTurn()
      }
    }
    if (out === undefined) {
      await pages(text => io.stdout.write(text))
      return EXIT.done
    }
    if (existsSync(out)) return refuse(`${out} exists already`, io)
    return await writing(out, io, () => intoFile(out, io.signal, pages))
  } finally {
    journal.close()
  }
}

/** The payload stands in its line as it arrived, so that no number is rounded; only line breaks between tokens go. */
const lineOf = ({ seq, time, incarnation, event, eventId, context, payload }: Entry): string => {
  const head = JSON.stringify({ seq, time, incarnation, event, event_id: eventId, context })
  return `${head.slice(0, -1)},"payload":${payload === '' ? 'null' : payload.replace(/[\r\n]+/g, ' ')}}\n`
}

/** A file of mode 0600 that is whole or not there. */
const intoFile = async (
  path: string,
  signal: AbortSignal,
  fill: (write: (text: string) => Promise<void>) => Promise<void>,
): Promise<void> => {
  const file = await open(path, 'wx', 0o600)
  try {
    await fill(text => {
      signal.throwIfAborted()
      return file.appendFile(text)
    })
    await file.sync()
  } catch (error) {
    await rm(path, { force: true })
    throw error
  } finally {
    await file.close()
  }
}

const refuse = (why: string, io: CliIo): number => {
  io.stderr.write(`shoji: ${why}\n`)
  return EXIT.wrong
}

/** A place that cannot be written to is the operator's to mend: one line, no stack. */
const writing = async (path: string, io: CliIo, write: () => Promise<void>): Promise<number> => {
  try {
    await write()
    return EXIT.done
  } catch (error) {
    const aborted = io.signal.aborted
    const why = aborted ? 'interrupted' : error instanceof Error ? error.message : String(error)
    io.stderr.write(`shoji: ${path} was not written: ${why}\n`)
    return EXIT.failed
  }
}

/** All of them open the journal for reading alone, so they work beside a running server. */
export const journalCommands: CliCommands['journal'] = { stats, verify, backup, export: exportWorker }
