import type { Mac } from './continuity/utterance.ts'
import type { Entry, Seq } from './entry.ts'
import type { AppendBatch, Checkpoint, StreamRecord } from './journal.ts'
import { OPEN_STATE_VERSION, openBlocks } from './open-state.ts'
import { encodeStreamState, type StreamState } from './recovery.ts'

const CHECKPOINT_ENTRIES = 1_000
const CHECKPOINT_BYTES = 1024 * 1024
/** A larger fold is not stored; a start then folds from the checkpoint before it. */
const CHECKPOINT_STATE_MAX = 1024 * 1024

export type NewEntry = Omit<Entry, 'seq' | 'stream' | 'incarnation'>

interface Deps {
  readonly mac: Mac
  readonly nextSeq: () => Seq
  append(entry: Entry, beside: Omit<AppendBatch, 'entries'>): void
}

/**
 * Numbers a stream's entries and hands them to the journal, with a checkpoint of the state where one is due:
 * at a list, a run's end, and every so many entries or bytes. The state must have the entry folded in.
 */
export function createEntryWriter(
  { mac, nextSeq, append }: Deps,
  state: StreamState,
): (record: StreamRecord, entry: NewEntry, fresh: boolean) => void {
  let entriesSince = 0
  let bytesSince = 0

  function checkpointAt({ id }: StreamRecord, seq: Seq): Checkpoint | undefined {
    entriesSince = 0
    bytesSince = 0
    const text = encodeStreamState(state, mac)
    if (Buffer.byteLength(text) > CHECKPOINT_STATE_MAX) return undefined
    const open = openBlocks(state.open).length > 0
    return { stream: id, seq, version: OPEN_STATE_VERSION, state: text, ...(open && { open }) }
  }

  return (record, entry, fresh) => {
    const { id: stream, incarnation } = record
    const whole: Entry = { seq: nextSeq(), stream, incarnation, ...entry }
    entriesSince += 1
    bytesSince += entry.payload.length
    const due =
      entry.context.replaces === true ||
      entry.event === 'run_end' ||
      entriesSince >= CHECKPOINT_ENTRIES ||
      bytesSince >= CHECKPOINT_BYTES
    const checkpoint = due ? checkpointAt(record, whole.seq) : undefined
    append(whole, {
      ...(fresh && { incarnations: [{ stream, incarnation }] }),
      ...(checkpoint !== undefined && { checkpoints: [checkpoint] }),
    })
  }
}
