import type { Class, ResetReason } from '@shoji/web-contract'
import type { Json } from '../lib/json.ts'
import type { LossSign } from './continuity/loss.ts'
import { createMac } from './continuity/utterance.ts'
import { asSeq, type Entry, type Seq, type StreamId } from './entry.ts'
import type { AppendBatch, Journal, StreamRecord, StreamRef } from './journal.ts'
import { copyOpenState, type OpenState } from './open-state.ts'
import { recoverStreamState } from './recovery.ts'
import { createStreamWriter } from './stream-writer.ts'
import type { StreamWriter } from './way-in.ts'

export interface IngestEvents {
  readonly repeated: (stream: StreamRecord) => void
  readonly malformed: (stream: StreamRecord) => void
  /** Taken for overlap, a second telling, or a repeated result: stored, shown to nobody. */
  readonly untold: (stream: StreamRecord, why: 'overlap' | 'doubled') => void
  readonly inconsistent: (stream: StreamRecord, sign: LossSign) => void
  readonly resynced: (
    stream: StreamRecord,
    outcome: 'same' | 'adopted' | 'differs',
    classes: readonly Class[],
  ) => void
  readonly reset: (stream: StreamRecord, reason: ResetReason) => void
}

/** Takes out of events, before they are written, what must never be stored. */
export interface Strip {
  /** `event` is the name as it was told. Null where nothing of it is to be removed. */
  event(event: string, data: Json): Stripped | null
  /** Removes the same from a state that an earlier process has stored; changes it in place. */
  open(state: OpenState): void
}

export interface Stripped {
  readonly data: Json
  /** `{"event":…,"data":…}` of what is left. */
  readonly payload: string
  readonly notKept: readonly Class[]
}

export interface Ingest {
  /** Finds or makes a stream and folds what is known of it. Later calls return the same writer. */
  open(ref: StreamRef, profile: string | null): Promise<StreamWriter>
  setProfile(ref: StreamRef, profile: string | null): Promise<void>
  /** Every stream that is known, with its record as it is now. */
  streams(): readonly StreamRecord[]
  find(runtime: string, worker: string): StreamRecord | undefined
  /** Told when a stream appears or its record changes. */
  onStream(listener: (record: StreamRecord) => void): () => void
  /** Position of the newest entry handed in, durable or not. */
  readonly position: Seq
  /** The worker's status as it was last told; null while nothing was. */
  status(stream: StreamId): string | null
  /**
   * What is open in the streams at `position`, as one consistent cut. Nothing of it may be shown before
   * `journal.durable(position)` has resolved.
   */
  cut(streams: readonly StreamId[]): { position: Seq; states: Map<StreamId, OpenState> }
}

interface Deps {
  readonly journal: Journal
  readonly events?: Partial<IngestEvents>
  readonly strip?: Strip
  readonly now?: () => number
  /** False: snapshots are never asked for beside a connection. */
  readonly resync?: boolean
}

/** The stage between sources and the journal: orders, resolves context, forgets repetitions, checkpoints. */
export async function createIngest({
  journal,
  events,
  strip,
  now = Date.now,
  resync = true,
}: Deps): Promise<Ingest> {
  let next: number = journal.firstSeq
  const mac = createMac(journal.keys.id)
  const slots = new Map<string, Promise<StreamWriter>>()
  const byId = new Map<StreamId, StreamWriter>()
  const records = new Map<string, StreamRecord>()
  const listeners = new Set<(record: StreamRecord) => void>()

  const nameOf = (ref: { runtime: string; worker: string }): string => `${ref.runtime}\u0000${ref.worker}`
  const publish = (record: StreamRecord): void => {
    records.set(nameOf(record), record)
    for (const listener of listeners) listener(record)
  }
  for (const record of await journal.streams()) records.set(nameOf(record), record)

  async function openSlot(ref: StreamRef, profile: string | null): Promise<StreamWriter> {
    let record = await journal.openStream(ref, profile)
    const state = await recoverStreamState(journal, record, mac)
    if (record.profile !== profile) {
      // Another worker than it was, though under its name: nothing proves that it goes on.
      state.last.broken = true
      await journal.setProfile(record.id, profile)
      record = { ...record, profile }
    }
    strip?.open(state.open)
    const writer = createStreamWriter(
      {
        mac,
        now,
        resync,
        ...(strip !== undefined && { strip }),
        ...(events !== undefined && { events }),
        nextSeq: () => asSeq(next),
        append(entry: Entry, beside: Omit<AppendBatch, 'entries'>) {
          next = entry.seq + 1
          journal.append({ entries: [entry], ...beside })
        },
        quarantine: frame => void journal.quarantine(frame).catch(() => {}),
        changed: publish,
      },
      record,
      state,
    )
    byId.set(record.id, writer)
    publish(record)
    return writer
  }

  return {
    open(ref, profile) {
      const name = nameOf(ref)
      let opening = slots.get(name)
      if (opening === undefined) {
        opening = openSlot(ref, profile)
        slots.set(name, opening)
        opening.catch(() => slots.delete(name))
      }
      return opening
    },
    async setProfile(ref, profile) {
      const record = records.get(nameOf(ref))
      if (record === undefined || record.profile === profile) return
      await journal.setProfile(record.id, profile)
      const writer = byId.get(record.id)
      if (writer === undefined) publish({ ...record, profile })
      else writer.profileIs(profile)
    },
    streams: () => [...records.values()],
    find: (runtime, worker) => records.get(nameOf({ runtime, worker })),
    onStream(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    get position() {
      return asSeq(next - 1)
    },
    status: stream => byId.get(stream)?.open.status ?? null,
    cut(streams) {
      const states = new Map<StreamId, OpenState>()
      for (const stream of streams) {
        const writer = byId.get(stream)
        if (writer !== undefined) states.set(stream, copyOpenState(writer.open))
      }
      return { position: asSeq(next - 1), states }
    },
  }
}
