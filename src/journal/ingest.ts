import type { Class, ResetReason } from '@shoji/web-contract'
import { asRecord, asText, type Json, parseJson } from '../lib/json.ts'
import {
  asSeq,
  type Context,
  type Entry,
  type Envelope,
  GAP_EVENT,
  type Seq,
  type StreamId,
} from './entry.ts'
import type { Checkpoint, Journal, QuarantinedFrame, StreamRecord, StreamRef } from './journal.ts'
import {
  copyOpenState,
  decodeOpenState,
  emptyOpenState,
  encodeOpenState,
  OPEN_STATE_VERSION,
  type OpenState,
  openBlocks,
} from './open-state.ts'
import { flatten, isMark, step } from './step.ts'

const CHECKPOINT_ENTRIES = 1_000
const CHECKPOINT_BYTES = 1024 * 1024
/** A larger fold is not stored; a start then folds from the checkpoint before it. */
const CHECKPOINT_STATE_MAX = 1024 * 1024
/** Ids remembered to know a repetition: at least this many, the Runtime's whole backlog, and at most double. */
const RECENT_IDS = 1_024
const RECOVERY_PAGE = { maxRows: 1_000, maxBytes: 8 * 1024 * 1024 }
/** Names that only Shoji may give an event. */
const RESERVED: ReadonlySet<string> = new Set(['greeting', 'system_prompt', 'block_end', GAP_EVENT])

export interface IngestEvents {
  readonly repeated: (stream: StreamRecord) => void
  readonly malformed: (stream: StreamRecord) => void
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

/** One worker's way in; `open` is what is open after everything handed in so far, durable or not. */
export interface StreamWriter {
  readonly record: StreamRecord
  readonly known: boolean
  begin(snapshot: Envelope, reason: ResetReason): void
  accept(envelope: Envelope): void
  reject(frame: Omit<QuarantinedFrame, 'stream'>): void
  stopped(time: number): void
}

export interface Ingest {
  /** Finds or makes a stream and folds what is open in it. Later calls return the same writer. */
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
  readonly events?: IngestEvents
  readonly strip?: Strip
}

interface Slot {
  record: StreamRecord
  open: OpenState
  recent: Set<string>
  /** The ids before those of `recent`: a set whose oldest member is taken out each time slows down. */
  older: Set<string>
  entriesSince: number
  bytesSince: number
}

/** The stage between sources and the journal: orders, resolves context, forgets repetitions, checkpoints. */
export async function createIngest({ journal, events, strip }: Deps): Promise<Ingest> {
  let next: number = journal.firstSeq
  const slots = new Map<string, Promise<StreamWriter>>()
  const byId = new Map<StreamId, Slot>()
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
    if (profile !== null && record.profile !== profile) {
      await journal.setProfile(record.id, profile)
      record = { ...record, profile }
    }
    const open = await recoverOpenState(journal, record)
    strip?.open(open)
    const slot: Slot = {
      record,
      open,
      recent: new Set(),
      older: new Set(),
      entriesSince: 0,
      bytesSince: 0,
    }
    byId.set(record.id, slot)
    publish(record)
    return writer(slot)
  }

  function write(slot: Slot, entry: Omit<Entry, 'seq' | 'stream' | 'incarnation'>, fresh: boolean): void {
    const seq = asSeq(next++)
    const { record } = slot
    const whole: Entry = {
      seq,
      stream: record.id,
      incarnation: record.incarnation,
      ...entry,
    }
    slot.entriesSince += 1
    slot.bytesSince += entry.payload.length
    const due =
      entry.context.replaces === true ||
      entry.event === 'run_end' ||
      slot.entriesSince >= CHECKPOINT_ENTRIES ||
      slot.bytesSince >= CHECKPOINT_BYTES
    const checkpoint = due ? checkpointOf(slot, seq) : undefined
    journal.append({
      entries: [whole],
      ...(fresh && { incarnations: [{ stream: record.id, incarnation: record.incarnation }] }),
      ...(checkpoint !== undefined && { checkpoints: [checkpoint] }),
    })
  }

  function checkpointOf(slot: Slot, seq: Seq): Checkpoint | undefined {
    const state = encodeOpenState(slot.open)
    slot.entriesSince = 0
    slot.bytesSince = 0
    if (Buffer.byteLength(state) > CHECKPOINT_STATE_MAX) return undefined
    const open = openBlocks(slot.open).length > 0
    return { stream: slot.record.id, seq, version: OPEN_STATE_VERSION, state, ...(open && { open }) }
  }

  function remember(slot: Slot, eventId: string): boolean {
    if (slot.recent.has(eventId) || slot.older.has(eventId)) return false
    // A copy: as a slice of its frame an id would keep all of that in memory.
    slot.recent.add(Buffer.from(eventId).toString())
    if (slot.recent.size >= RECENT_IDS) {
      slot.older = slot.recent
      slot.recent = new Set()
    }
    return true
  }

  function take(slot: Slot, envelope: Envelope, extra: Partial<Context>, fresh: boolean): void {
    if (!remember(slot, envelope.eventId)) {
      events?.repeated(slot.record)
      return
    }
    const payload = asRecord(envelope.parsed ?? parseJson(envelope.payload))
    const told = asText(payload.event)
    const event = RESERVED.has(told) || told.startsWith('command.') || told === '' ? `x.${told}` : told
    const stripped = strip?.event(told, asRecord(payload.data)) ?? null
    const data = stripped?.data ?? asRecord(payload.data)
    const context = step(slot.open, event, data, { seq: asSeq(next), index: 0 }, stripped?.notKept)
    const reset = resetReasonOf(event, context)
    const { eventId, time } = envelope
    write(
      slot,
      {
        time,
        event,
        eventId,
        payload: stripped?.payload ?? envelope.payload,
        mark: isMark(flatten(event, data).event, context),
        context: { ...context, ...(reset !== undefined && { reset }), ...extra },
      },
      fresh,
    )
  }

  function writer(slot: Slot): StreamWriter {
    return {
      get record() {
        return slot.record
      },
      get known() {
        return slot.open.replacing > 0
      },
      begin(snapshot, reason) {
        slot.record = { ...slot.record, incarnation: slot.record.incarnation + 1 }
        slot.recent.clear()
        slot.older.clear()
        publish(slot.record)
        take(slot, snapshot, slot.open.replacing > 0 ? { reset: reason } : {}, true)
      },
      accept: envelope => take(slot, envelope, {}, false),
      reject(frame) {
        // What could not be read can't be told apart: nothing of it is kept where something must not be.
        const body = strip === undefined ? frame.body : ''
        void journal.quarantine({ ...frame, body, stream: slot.record.id }).catch(() => {})
        const eventId = `gap:${next}`
        const context = { gap: 'upstream_frame_rejected' as const }
        write(slot, { time: frame.time, event: GAP_EVENT, eventId, payload: '', context, mark: false }, false)
      },
      stopped(time) {
        if (slot.open.replacing === 0 || slot.open.status === 'stopped') return
        const payload = '{"event":"shutdown"}'
        take(slot, { eventId: `stopped:${next}`, payload, time }, { masked: true }, false)
      },
    }
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
      const slot = byId.get(record.id)
      const changed = { ...(slot?.record ?? record), profile }
      if (slot !== undefined) slot.record = changed
      publish(changed)
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
        const slot = byId.get(stream)
        if (slot !== undefined) states.set(stream, copyOpenState(slot.open))
      }
      return { position: asSeq(next - 1), states }
    },
  }
}

function resetReasonOf(event: string, context: Context): ResetReason | undefined {
  if (!context.replaces || context.first) return undefined
  if (event === 'rewind_applied') return 'rewound'
  return event === 'segment_rotated' ? 'compacted' : undefined
}

/** Folds what is open: from the newest good checkpoint, or from the newest list-replacing entry, to the head. */
export async function recoverOpenState(
  journal: Journal,
  record: StreamRecord,
  through: Seq = journal.head,
): Promise<OpenState> {
  const checkpoint = await journal.readCheckpoint(record.id, through)
  let open = emptyOpenState()
  let after: Seq = asSeq(0)
  if (checkpoint !== null && checkpoint.version === OPEN_STATE_VERSION) {
    open = decodeOpenState(checkpoint.state)
    after = checkpoint.seq
  } else {
    const replacing = await journal.readReplacing(record.id, through)
    if (replacing !== null) after = asSeq(replacing.seq - 1)
  }
  for (;;) {
    const page = await journal.readAfter([record.id], after, RECOVERY_PAGE)
    for (const entry of page.entries) if (entry.seq <= through) refold(open, entry)
    after = page.through
    if (page.atHead || after >= through) return open
  }
}

/** Takes a stored entry into the state again. */
export function refold(open: OpenState, entry: Entry): void {
  if (entry.context.gap !== undefined || entry.context.overlap || entry.context.doubled) return
  const payload = asRecord(parseJson(entry.payload))
  step(open, entry.event, asRecord(payload.data), { seq: entry.seq, index: 0 }, entry.context.notKept)
}
