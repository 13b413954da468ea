import { ShojiError } from '../../lib/error.ts'
import { asSeq, asStreamId, type Context, type Entry, SEQ_MAX, type Seq } from '../entry.ts'
import type { AppendBatch } from '../journal.ts'
import type { Cell, CommitRequest } from './protocol.ts'

export const CHECKPOINT_BYTES_MAX = 1024 * 1024

/** What an entry takes in memory beside its texts, so that many small ones count as well. */
const ENTRY_OVERHEAD_BYTES = 256

export interface Flattened {
  readonly cells: Cell[]
  readonly checkpoints: CommitRequest['checkpoints'][number][]
  readonly bytes: number
}

/**
 * Turns a batch into cells of `ENTRY_COLUMNS`. Throws `internal` where seqs do not go on increasing or a
 * checkpoint is past its bound: faults of the caller.
 */
export const flatten = (batch: AppendBatch, after: Seq, now: () => number): Flattened => {
  const cells: Cell[] = []
  let bytes = 0
  let last: number = after
  for (const entry of batch.entries) {
    const { seq, context, payload } = entry
    if (!(seq > last && seq <= SEQ_MAX))
      throw new ShojiError('internal', 'entries must be appended in order of seq', { facts: { seq, last } })
    last = seq
    const text = JSON.stringify(context)
    const size = Buffer.byteLength(text) + Buffer.byteLength(payload)
    const item = context.item
    cells.push(
      seq,
      entry.stream,
      entry.incarnation,
      entry.time,
      item === undefined ? null : item.seq,
      item === undefined ? null : item.index,
      context.replaces === true ? 1 : 0,
      entry.mark ? 1 : 0,
      size,
      entry.event,
      entry.eventId,
      text,
      payload,
    )
    bytes += size + ENTRY_OVERHEAD_BYTES
  }
  const checkpoints = (batch.checkpoints ?? []).map(({ stream, seq, version, state, open }) => {
    const size = Buffer.byteLength(state)
    if (size > CHECKPOINT_BYTES_MAX)
      throw new ShojiError('internal', 'a checkpoint is too large', { facts: { stream, size } })
    bytes += size
    const newest = batch.entries.findLast(entry => entry.stream === stream && entry.seq <= seq)
    return { stream, seq, version, state, clean: open !== true, time: newest?.time ?? now() }
  })
  return { cells, checkpoints, bytes }
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
  context: JSON.parse(row[7]) as Context,
  mark: row[4] === 1,
})

export const rowBytes = (row: ReadRow): number => Buffer.byteLength(row[7]) + Buffer.byteLength(row[8])
