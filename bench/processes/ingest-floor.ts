/**
 * The floor of ingest, as little code as does the work: a `ws` socket a worker, `JSON.parse`, and an insert
 * into the same kind of file (WAL, synchronous FULL) in transactions of what came within 5 ms.
 */
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { WebSocket } from 'ws'
import { configOf, serveChild } from '../support/serve-child.ts'
import { nowUs } from '../support/stamp.ts'

export interface FloorConfig {
  readonly directory: string
  readonly url: string
  readonly workerIds: readonly string[]
}

export interface FloorReport {
  readonly entries: number
  readonly commits: number
}

const FLUSH_MS = 5
const FLUSH_ROWS = 512

const { directory, url, workerIds } = configOf<FloorConfig>()
const database = new Database(join(directory, 'floor.db'))
database.pragma('journal_mode = WAL')
database.pragma('synchronous = FULL')
database.exec(
  'CREATE TABLE entries (seq INTEGER PRIMARY KEY, worker TEXT, event_id TEXT, event TEXT, payload TEXT)',
)
const insert = database.prepare('INSERT INTO entries (worker, event_id, event, payload) VALUES (?, ?, ?, ?)')

let rows: [string, string, string, string][] = []
let timer: NodeJS.Timeout | undefined
let entries = 0
let commits = 0
let waiting: { entries: number; resolve: (us: number) => void } | undefined

const insertAll = database.transaction((batch: typeof rows) => {
  for (const row of batch) insert.run(...row)
})

const flush = (): void => {
  clearTimeout(timer)
  timer = undefined
  const batch = rows
  rows = []
  insertAll(batch)
  entries += batch.length
  commits += 1
  if (waiting === undefined || entries < waiting.entries) return
  waiting.resolve(nowUs())
  waiting = undefined
}

const take = (worker: string, text: string): void => {
  const { envelope } = JSON.parse(text) as {
    envelope: { event_id: string; payload: { event: string; data: unknown } }
  }
  rows.push([worker, envelope.event_id, envelope.payload.event, JSON.stringify(envelope.payload)])
  if (rows.length >= FLUSH_ROWS) flush()
  else timer ??= setTimeout(flush, FLUSH_MS)
}

const sockets = await Promise.all(
  workerIds.map(async worker => {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/workers/${worker}/events/ws`, {
      perMessageDeflate: false,
    })
    socket.on('message', data => take(worker, String(data)))
    await new Promise((resolve, reject) => {
      socket.once('open', resolve)
      socket.once('error', reject)
    })
    return socket
  }),
)

serveChild(
  {},
  {
    mark() {
      entries = 0
      commits = 0
    },
    until: (at: { entries: number }): Promise<number> =>
      entries >= at.entries
        ? Promise.resolve(nowUs())
        : new Promise(resolve => {
            waiting = { entries: at.entries, resolve }
          }),
    report: (): FloorReport => ({ entries, commits }),
    stop() {
      for (const socket of sockets) socket.terminate()
      database.close()
    },
  },
)
