import { ShojiError } from '../../lib/error.ts'
import { parseJson, stringifyJson } from '../../lib/json.ts'
import { asSeq, asStreamId, type Context, type Entry, SEQ_MAX, type Seq } from '../entry.ts'
import type { AppendBatch } from '../journal.ts'
import type { Cell, CommitRequest } from './protocol.ts'

const CHECKPOINT_BYTES_MAX = 1024 * 1024

/** What an entry takes in memory beside its payload, context included, so that many small ones count as well. */
const ENTRY_OVERHEAD_BYTES = 512

export interface Flattened {
  readonly cells: Cell[]
  readonly checkpoints: CommitRequest['checkpoints'][number][]
}

/**
 * What a batch counts in the queue, in bytes. Throws `internal` where seqs do not go on increasing or a
 * checkpoint is past its bound: faults of the caller.
 */
export const measure = (batch: AppendBatch, after: Seq): number => {
  let bytes = 0
  let last: number = after
  for (const { seq, payload } of batch.entries) {
    if (!(seq > last && seq <= SEQ_MAX))
      throw new ShojiError('internal', 'entries must be appended in order of seq', { facts: { seq, last } })
    last = seq
    bytes += Buffer.byteLength(payload) + ENTRY_OVERHEAD_BYTES
  }
  for (const { stream, state } of batch.checkpoints ?? []) {
    const size = Buffer.byteLength(state)
    if (size > CHECKPOINT_BYTES_MAX)
      throw new ShojiError('internal', 'a checkpoint is too large', { facts: { stream, size } })
    bytes += size
  }
  return bytes
}

/**
 * Adds a batch to cells of `ENTRY_COLUMNS` and to checkpoints. Done when it is sent, not when it is queued:
 * what waits is kept once, and not as rows beside it.
 */
export const flatten = (batch: AppendBatch, into: Flattened, now: () => number): void => {
  const { cells, checkpoints } = into
  for (const entry of batch.entries) {
    const { context, payload } = entry
    const text = stringifyJson(context)
    const item = context.item
    cells.push(
      entry.seq,
      entry.stream,
      entry.incarnation,
      entry.time,
      item === undefined ? null : item.seq,
      item === undefined ? null : item.index,
      context.replaces === true ? 1 : 0,
      entry.mark ? 1 : 0,
      Buffer.byteLength(text) + Buffer.byteLength(payload),
      entry.event,
      entry.eventId,
      text,
      payload,
    )
  }
  for (const { stream, seq, version, state, open } of batch.checkpoints ?? []) {
    const newest = batch.entries.findLast(entry => entry.stream === stream && entry.seq <= seq)
    checkpoints.push({ stream, seq, version, state, clean: open !== true, time: newest?.time ?? now() })
  }
}

/** Columns of a row that is read, in the order of `toEntry`. */
export const READ_COLUMNS = 'seq, stream, incarnation, time, mark, event, event_id, context, payload'
export type ReadRow = [number, number, number, number, number, string, string, string, string]

export const toEntry = (row: ReadRow): Entry => ({
  seq: asSeq(row[0]),
  stream: asStreamId(row[1]),
  incarnation: row[2],
  time: row[3],
  event: row[5],
  eventId: row[6],
  payload: row[8],
  context: parseJson(row[7]) as Context,
  mark: row[4] === 1,
})

export const rowBytes = (row: ReadRow): number => Buffer.byteLength(row[7]) + Buffer.byteLength(row[8])
