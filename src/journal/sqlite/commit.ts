import type { Database, Statement } from 'better-sqlite3'
import { type Cell, type CommitRequest, ENTRY_COLUMNS, ENTRY_WIDTH } from './protocol.ts'

/** Rows of one INSERT: past this the statement grows and the time a row takes does not shrink. */
const INSERT_ROWS = 16

const SEQ = ENTRY_COLUMNS.indexOf('seq')
const STREAM = ENTRY_COLUMNS.indexOf('stream')
const TIME = ENTRY_COLUMNS.indexOf('time')
const REPLACES = ENTRY_COLUMNS.indexOf('replaces')
const BYTES = ENTRY_COLUMNS.indexOf('bytes')

/** Checkpoints of a stream whose state is kept: the newest, and one that a slow reader may still want. */
const CHECKPOINTS_KEPT = 2

export type WriteCommit = (request: CommitRequest) => number[]

interface CutPoint {
  readonly stream: number
  readonly seq: number
  readonly time: number
}

interface Sum {
  entries: number
  bytes: number
}

const insertSql = (rows: number): string => {
  const row = `(${ENTRY_COLUMNS.map(() => '?').join(',')})`
  return `INSERT OR IGNORE INTO entries (${ENTRY_COLUMNS.join(',')}) VALUES ${Array(rows).fill(row).join(',')}`
}

const numberAt = (cells: readonly Cell[], index: number): number => Number(cells[index])

const cutPointsOf = (request: CommitRequest): CutPoint[] => {
  const { cells, checkpoints } = request
  const points: CutPoint[] = checkpoints.filter(point => point.clean)
  for (let at = 0; at < cells.length; at += ENTRY_WIDTH)
    if (cells[at + REPLACES] === 1)
      points.push({
        stream: numberAt(cells, at + STREAM),
        seq: numberAt(cells, at + SEQ) - 1,
        time: numberAt(cells, at + TIME),
      })
  return points.sort((a, b) => a.seq - b.seq)
}

/** Prepares the one transaction of ingest. Returns the seqs that were dropped as repetitions. */
export const commitStatements = (database: Database): WriteCommit => {
  const insertMany = database.prepare(insertSql(INSERT_ROWS))
  const insertOne = database.prepare(insertSql(1))
  const stored = database
    .prepare<[number, number], number>('SELECT seq FROM entries WHERE seq BETWEEN ? AND ?')
    .pluck()
  const grow = database.prepare(
    `UPDATE streams SET entries = entries + @entries, bytes = bytes + @bytes,
       total_entries = total_entries + @entries, total_bytes = total_bytes + @bytes WHERE id = @stream`,
  )
  const totals = database.prepare<[number], Sum>(
    'SELECT total_entries AS entries, total_bytes AS bytes FROM streams WHERE id = ?',
  )
  const addCut = database.prepare(
    'INSERT OR REPLACE INTO cuts (stream, seq, time, total_entries, total_bytes) VALUES (?, ?, ?, ?, ?)',
  )
  const begin = database.prepare('BEGIN IMMEDIATE')
  const commit = database.prepare('COMMIT')
  const rollback = database.prepare('ROLLBACK')
  const incarnate = database.prepare('UPDATE streams SET incarnation = ? WHERE id = ?')
  const addCheckpoint = database.prepare(
    'INSERT OR REPLACE INTO checkpoints (stream, seq, version, state) VALUES (?, ?, ?, ?)',
  )
  const pruneCheckpoints = database.prepare(
    `DELETE FROM checkpoints WHERE stream = @stream AND seq < (
       SELECT seq FROM checkpoints WHERE stream = @stream ORDER BY seq DESC LIMIT 1 OFFSET ${CHECKPOINTS_KEPT - 1})`,
  )
  const setPosition = database.prepare('INSERT OR REPLACE INTO positions (stream, position) VALUES (?, ?)')

  /** Returns how many rows went in. */
  const insert = (cells: readonly Cell[]): number => {
    const width = INSERT_ROWS * ENTRY_WIDTH
    let inserted = 0
    let at = 0
    for (; at + width <= cells.length; at += width) inserted += run(insertMany, cells.slice(at, at + width))
    for (; at < cells.length; at += ENTRY_WIDTH) inserted += run(insertOne, cells.slice(at, at + ENTRY_WIDTH))
    return inserted
  }

  /**
   * A row that was ignored is either a repetition, or the same row of a batch whose commit succeeded without
   * the answer reaching anyone: then its own seq is there, and it counts as stored.
   */
  const missing = (cells: readonly Cell[]): Set<number> => {
    const there = new Set(stored.all(numberAt(cells, SEQ), numberAt(cells, cells.length - ENTRY_WIDTH + SEQ)))
    const repeated = new Set<number>()
    for (let at = SEQ; at < cells.length; at += ENTRY_WIDTH)
      if (!there.has(numberAt(cells, at))) repeated.add(numberAt(cells, at))
    return repeated
  }

  const account = (request: CommitRequest, repeated: ReadonlySet<number>): void => {
    const { cells } = request
    const sums = new Map<number, Sum>()
    const points = cutPointsOf(request)
    let next = 0
    const cutBefore = (seq: number): void => {
      for (let point = points[next]; point !== undefined && point.seq < seq; point = points[++next]) {
        const base = totals.get(point.stream)
        const sum = sums.get(point.stream)
        const entries = (base?.entries ?? 0) + (sum?.entries ?? 0)
        const bytes = (base?.bytes ?? 0) + (sum?.bytes ?? 0)
        if (entries > 0) addCut.run(point.stream, point.seq, point.time, entries, bytes)
      }
    }
    for (let at = 0; at < cells.length; at += ENTRY_WIDTH) {
      const seq = numberAt(cells, at + SEQ)
      cutBefore(seq)
      if (repeated.has(seq)) continue
      const stream = numberAt(cells, at + STREAM)
      const sum = sums.get(stream)
      if (sum === undefined) sums.set(stream, { entries: 1, bytes: numberAt(cells, at + BYTES) })
      else {
        sum.entries++
        sum.bytes += numberAt(cells, at + BYTES)
      }
    }
    cutBefore(Number.POSITIVE_INFINITY)
    for (const [stream, sum] of sums) grow.run({ stream, ...sum })
  }

  const write = (request: CommitRequest): number[] => {
    const { cells, incarnations, checkpoints, positions } = request
    const inserted = insert(cells)
    const repeated = inserted * ENTRY_WIDTH < cells.length ? missing(cells) : new Set<number>()
    // Nothing new in a batch that is told again: it is in the sums already.
    if (inserted > 0 || cells.length === 0) account(request, repeated)
    for (let i = 0; i < incarnations.length; i += 2) incarnate.run(incarnations[i + 1], incarnations[i])
    for (const { stream, seq, version, state } of checkpoints) addCheckpoint.run(stream, seq, version, state)
    for (const stream of new Set(checkpoints.map(point => point.stream))) pruneCheckpoints.run({ stream })
    for (const { stream, position } of positions) setPosition.run(stream, position)
    return [...repeated]
  }

  return request => {
    begin.run()
    try {
      const repeated = write(request)
      commit.run()
      return repeated
    } catch (error) {
      if (database.inTransaction) rollback.run()
      throw error
    }
  }
}

const run = (statement: Statement, cells: Cell[]): number => statement.run(cells).changes
