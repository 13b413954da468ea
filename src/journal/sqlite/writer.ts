import { statSync } from 'node:fs'
import Database from 'better-sqlite3'
import { backupTo } from './backup.ts'
import { commitStatements, type WriteCommit } from './commit.ts'
import { failureOf } from './failure.ts'
import { setDurable } from './pragmas.ts'
import type { Kind, Reply, Request, Requests, StreamReply, WriterOptions } from './protocol.ts'
import { keepQuarantined } from './quarantine.ts'
import { type Retention, retentionStatements } from './retention.ts'

const PAGE_BYTES = 4096

type Handlers = { readonly [K in Kind]: (request: Requests[K]['request']) => Reply<K> | Promise<Reply<K>> }

/**
 * The one writing connection. It runs on its own thread (`writer-thread.ts`) or, for tests that want speed,
 * on the caller's; either way requests are handled one at a time in the order in which they come.
 */
export class Writer {
  readonly #options: WriterOptions
  #database: Database.Database | undefined
  #commit: WriteCommit | undefined
  #retention: Retention | undefined

  constructor(options: WriterOptions) {
    this.#options = options
  }

  /** Resolves with the reply; throws what SQLite throws, after which the next request begins afresh. */
  handle(request: Request): Requests[Kind]['reply'] | Promise<Requests[Kind]['reply']> {
    try {
      // The kind picks the handler of its own request; the compiler cannot follow that through the union.
      const handler = this.#handlers[request.kind] as (request: Request) => Requests[Kind]['reply']
      return handler(request)
    } catch (error) {
      this.#recover(error)
      throw error
    }
  }

  /** Work that nobody waits for, done after a reply: keeps the WAL under its cap. */
  maintain(): void {
    const database = this.#database
    if (database === undefined) return
    try {
      const [state] = database.pragma('wal_checkpoint(NOOP)') as { log: number; checkpointed: number }[]
      const waiting = ((state?.log ?? 0) - (state?.checkpointed ?? 0)) * PAGE_BYTES
      // A passive checkpoint waits for nobody; the WAL starts over once no reader needs it any more. Seldom,
      // since pages that were written again in between are copied once.
      if (waiting > this.#options.walCapBytes / 4) database.pragma('wal_checkpoint(PASSIVE)')
      // Readers that overlap one another keep it growing: then one pause for them all.
      if (this.#walBytes() > this.#options.walCapBytes * (3 / 4)) database.pragma('wal_checkpoint(TRUNCATE)')
    } catch (error) {
      this.#recover(error)
    }
  }

  /** To be called when nothing was written for a while. */
  idle(): void {
    try {
      if (this.#database !== undefined && this.#walBytes() > 0)
        this.#database.pragma('wal_checkpoint(TRUNCATE)')
    } catch (error) {
      this.#recover(error)
    }
  }

  close(): void {
    this.idle()
    this.#drop()
  }

  readonly #handlers: Handlers = {
    commit: request => {
      const { database } = this.#open()
      this.#commit ??= commitStatements(database)
      const started = performance.now()
      const repeated = this.#commit(request)
      if (this.#options.syncDelayMs > 0) sleep(this.#options.syncDelayMs)
      return { repeated, ms: performance.now() - started }
    },
    openStream: ({ ref, profile }) => {
      const { database } = this.#open()
      const key = [ref.source, ref.runtime, ref.worker]
      database
        .prepare('INSERT OR IGNORE INTO streams (source, runtime, worker, profile) VALUES (?, ?, ?, ?)')
        .run(...key, profile)
      const found = database
        .prepare<string[], StreamReply>(
          `SELECT id, profile, incarnation, last_deleted AS lastDeleted
           FROM streams WHERE source = ? AND runtime = ? AND worker = ?`,
        )
        .get(...key)
      if (found === undefined) throw new Error('the stream vanished')
      return found
    },
    setProfile: ({ stream, profile }) => {
      this.#open().database.prepare('UPDATE streams SET profile = ? WHERE id = ?').run(profile, stream)
      return null
    },
    quarantine: ({ frame }) => {
      keepQuarantined(this.#open().database, frame, this.#options.quarantine)
      return null
    },
    plan: ({ by, rules, now }) => this.#retain().plan(by, rules, now),
    cut: ({ cut, rows }) => this.#retain().cut(cut, rows),
    forget: request => {
      this.#retain().forget(request)
      return null
    },
    shrink: ({ pages }) => ({ left: this.#retain().shrink(pages) }),
    checkpoint: () => {
      this.#open().database.pragma('wal_checkpoint(TRUNCATE)')
      return null
    },
    backup: async ({ path }) => {
      await backupTo(this.#open().database, path)
      return null
    },
    limitPages: ({ pages }) => {
      const { database } = this.#open()
      database.pragma(`max_page_count = ${pages === 0 ? 0xfffffffe : pages}`)
      return { pages: Number(database.pragma('page_count', { simple: true })) }
    },
    close: () => {
      this.close()
      return null
    },
  }

  #retain(): Retention {
    const { database } = this.#open()
    this.#retention ??= retentionStatements(database)
    return this.#retention
  }

  #open(): { database: Database.Database } {
    if (this.#database === undefined) {
      const database = new Database(this.#options.path, { fileMustExist: true, timeout: 5000 })
      setDurable(database, false)
      database.pragma('wal_autocheckpoint = 0')
      database.pragma('cache_size = -32768')
      // After a checkpoint has emptied it, the WAL's file does not stay at its greatest size.
      database.pragma(`journal_size_limit = ${Math.floor(this.#options.walCapBytes / 2)}`)
      this.#database = database
    }
    return { database: this.#database }
  }

  /** A full disk leaves the connection sound; after anything else the next request opens another. */
  #recover(error: unknown): void {
    if (failureOf(error).code !== 'disk_full') this.#drop()
    else if (this.#database?.inTransaction) this.#database.exec('ROLLBACK')
  }

  #drop(): void {
    this.#commit = undefined
    this.#retention = undefined
    try {
      this.#database?.close()
    } finally {
      this.#database = undefined
    }
  }

  #walBytes(): number {
    return statSync(`${this.#options.path}-wal`, { throwIfNoEntry: false })?.size ?? 0
  }
}

const sleeper = new Int32Array(new SharedArrayBuffer(4))
const sleep = (ms: number): void => void Atomics.wait(sleeper, 0, 0, ms)
