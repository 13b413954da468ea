import type { Class, ResetReason } from '@shoji/web-contract'
import { asRecord, asText, type Json, parseJson, stringifyJson } from '../lib/json.ts'
import { compareSaid } from './continuity/compare-said.ts'
import { type Doubled, doubledAfter, mayBeToldAgain, noteDoubled } from './continuity/doubled.ts'
import {
  beginLastEvents,
  isBeyond,
  isProvable,
  noteLastEvent,
  provenEvents,
} from './continuity/last-events.ts'
import { type Loss, noteLoss, openLoss } from './continuity/loss.ts'
import { needNow, needSoon, noResyncNeed, settled, weigh } from './continuity/resync-need.ts'
import { saysNothing } from './continuity/said.ts'
import { saidOfList } from './continuity/said-list.ts'
import {
  close,
  dueAtMs,
  expire,
  inWindow,
  isOver,
  type Offered,
  offer,
  openStitch,
  repeatsResult,
  type Stitch,
} from './continuity/stitch.ts'
import type { Mac } from './continuity/utterance.ts'
import { asSeq, type Context, type Entry, type Envelope, GAP_EVENT, type Seq } from './entry.ts'
import { createEntryWriter, type NewEntry } from './entry-writer.ts'
import { expandList } from './expand.ts'
import type { IngestEvents, Strip } from './ingest.ts'
import type { AppendBatch, QuarantinedFrame, StreamRecord } from './journal.ts'
import { openBlocks } from './open-state.ts'
import { createRecentIds } from './recent-ids.ts'
import { type StreamState, saysEvent } from './recovery.ts'
import { flatten, isMark, step } from './step.ts'
import type { Beginning, StreamWriter } from './way-in.ts'

/** Names that only Shoji may give an event. */
const RESERVED: ReadonlySet<string> = new Set(['greeting', 'system_prompt', 'block_end', GAP_EVENT])
/** Log items come by snapshot alone in `events-ws` (R24); these tell that there may be some. */
const TELLS_OF_LOG: ReadonlySet<string> = new Set(['compact_done', 'error', 'system_item'])

interface Deps {
  readonly mac: Mac
  readonly now: () => number
  readonly strip?: Strip
  readonly events?: Partial<IngestEvents>
  /** False: nothing is ever fetched beside a connection. */
  readonly resync?: boolean
  readonly nextSeq: () => Seq
  append(entry: Entry, beside: Omit<AppendBatch, 'entries'>): void
  quarantine(frame: QuarantinedFrame): void
  changed(record: StreamRecord): void
}

/** An event on its way in: what a stitch may hold. */
interface Arrived {
  readonly event: string
  readonly data: Json
  readonly envelope: Envelope
}

export function createStreamWriter(deps: Deps, first: StreamRecord, state: StreamState): StreamWriter {
  const { mac, now, strip, events } = deps
  let record = first
  const recent = createRecentIds()
  const writeEntry = createEntryWriter(deps, state)
  let dialect: Beginning['dialect'] = isProvable(state.last) ? 'events-ws' : 'protocol-ws'
  let stitch: Stitch<Arrived> | null = null
  let doubled: Doubled = []
  /** An input of the next run may be told twice unknown. */
  let unsure = false
  let loss: Loss = openLoss(state.open)
  let compacted = false
  let differs: readonly Class[] | null = null
  let timer: NodeJS.Timeout | null = null
  let listener: (() => void) | null = null
  const need = noResyncNeed()
  // What was due when an earlier process ended is not known: one more look costs little.
  if (state.open.replacing > 0) needNow(need)

  const write = (entry: NewEntry, fresh = false): void => writeEntry(record, entry, fresh)

  const arrive = (envelope: Envelope): Arrived => {
    const payload = asRecord(envelope.parsed ?? parseJson(envelope.payload))
    const told = asText(payload.event)
    const event = RESERVED.has(told) || told.startsWith('command.') || told === '' ? `x.${told}` : told
    return { event, data: asRecord(payload.data), envelope }
  }

  const stripped = ({ event, data, envelope }: Arrived) =>
    strip?.event(event, data) ?? { data, payload: envelope.payload, notKept: undefined }

  /** Folds an event in and writes it. `extra` is what its context does not tell by itself. */
  function take(arrived: Arrived, extra: Partial<Context>, fresh = false): void {
    const { event, envelope } = arrived
    const { eventId, time } = envelope
    const kept = stripped(arrived)
    const key = { seq: deps.nextSeq(), index: 0 }
    const flat = flatten(event, arrived.data)
    const before = state.open.status
    // What a list says depends on what it carries over, so it is asked before it is folded.
    const replaces = { ...extra, ...(kept.notKept !== undefined && { notKept: kept.notKept }) }
    const saysFirst = event === 'snapshot' || event === 'rewind_applied' || event === 'segment_rotated'
    const context = saysFirst
      ? foldList(event, kept.data, key, replaces)
      : step(state.open, event, kept.data, key, kept.notKept)
    const reset = resetReasonOf(event, context)
    const whole = { ...context, ...(reset !== undefined && { reset }), ...extra }
    if (!saysFirst) saysEvent(state, event, kept.data, whole, mac)
    if (context.replaces) loss = openLoss(state.open)
    else if (extra.adopted === undefined) noteSigns(flat, context)
    write(
      {
        time,
        event,
        eventId,
        payload: kept.payload,
        mark: isMark(flatten(event, kept.data).event, whole),
        context: whole,
      },
      fresh,
    )
    if (whole.reset !== undefined) events?.reset?.(record, whole.reset)
    if (extra.adopted === undefined) noteNeed(flat, before)
  }

  function foldList(
    event: string,
    data: Json,
    key: { seq: Seq; index: number },
    extra: Partial<Context>,
  ): Context {
    const carried = { open: { ...state.open }, said: state.said }
    const context = step(state.open, event, data, key, extra.notKept)
    saysEvent(carried, event, data, { ...extra, ...context }, mac)
    state.said = carried.said
    return context
  }

  function noteSigns(flat: ReturnType<typeof flatten>, context: Context): void {
    const excused = stitch !== null && inWindow(stitch, flat.scope)
    for (const sign of noteLoss(loss, flat, context, excused)) {
      events?.inconsistent?.(record, sign)
      needNow(need)
    }
  }

  function noteNeed({ event, scope }: ReturnType<typeof flatten>, before: string | null): void {
    if (scope !== '') return
    if (event === 'compact_done') compacted = true
    const stops =
      before === 'running' && state.open.status !== 'running' && (event === 'status' || event === 'shutdown')
    if (stops && (unsure || dialect === 'events-ws')) {
      unsure = false
      needNow(need)
    } else if (dialect !== 'events-ws') return
    else if (TELLS_OF_LOG.has(event) && state.open.status !== 'running') needSoon(need, now())
  }

  /** Stored, and shown to nobody: it was told before. */
  function pass({ event, data, envelope }: Arrived, why: 'overlap' | 'doubled'): void {
    const kept = stripped({ event, data, envelope })
    const { eventId, time } = envelope
    const notKept = kept.notKept === undefined ? {} : { notKept: kept.notKept }
    const context: Context = why === 'overlap' ? { overlap: true, ...notKept } : { doubled: true, ...notKept }
    write({ time, event, eventId, payload: kept.payload, mark: false, context })
    events?.untold?.(record, why)
  }

  function takeOffered({ event: arrived, overlap }: Offered<Arrived>): void {
    const flat = flatten(arrived.event, arrived.data)
    if (overlap || repeatsResult(state.open, flat)) {
      pass(arrived, 'overlap')
      return
    }
    if (dialect === 'protocol-ws') {
      const noted = noteDoubled(doubled, flat, mac)
      doubled = noted.kept
      if (noted.doubled) {
        pass(arrived, 'doubled')
        return
      }
    }
    take(arrived, {})
  }

  function settleStitch(offered: Offered<Arrived>[]): void {
    for (const one of offered) takeOffered(one)
    if (stitch !== null && isOver(stitch)) stitch = null
  }

  function closeStitch(): void {
    if (stitch === null) return
    const held = close(stitch)
    settleStitch(held)
    stitch = null
  }

  /** Looks again when time alone would change something: a stitch's limit, or rest. */
  function schedule(): void {
    const at = now()
    const { lookAtMs } = weigh(need, state.open.status, at)
    const stitchAt = stitch === null ? null : dueAtMs(stitch)
    const times = [lookAtMs, stitchAt].filter(t => t !== null)
    if (timer !== null) clearTimeout(timer)
    timer = null
    if (times.length > 0) {
      timer = setTimeout(look, Math.max(1, Math.min(...times) - at))
      timer.unref()
    }
  }

  function look(): void {
    timer = null
    const due = stitch === null ? null : dueAtMs(stitch)
    if (stitch !== null && due !== null && now() >= due) settleStitch(expire(stitch))
    told()
  }

  function told(): void {
    // Most events change nothing here: no timer is made for them.
    if (need.state !== 'none' || stitch !== null || timer !== null) schedule()
    if (need.state !== 'none') listener?.()
  }

  function moved(): void {
    need.version += 1
    need.lastMs = now()
  }

  return {
    get record() {
      return record
    },
    get open() {
      return state.open
    },
    get known() {
      return state.open.replacing > 0
    },
    profileIs(profile) {
      record = { ...record, profile }
      deps.changed(record)
    },
    begin(snapshot, beginning) {
      closeStitch()
      const known = state.open.replacing > 0
      record = { ...record, incarnation: record.incarnation + 1 }
      recent.clear()
      dialect = beginning.dialect
      deps.changed(record)
      recent.note(snapshot.eventId)
      moved()
      const arrived = arrive(snapshot)
      state.last = beginLastEvents(snapshot.eventId, snapshot.payload, mac)
      doubled = doubledAfter(arrived.data, mac)
      unsure = mayBeToldAgain(arrived.data)
      take(arrived, known ? { reset: beginning.reason, ...(differs !== null && { differs }) } : {}, true)
      differs = null
      compacted = false
      const running = state.open.status === 'running'
      if (running) stitch = openStitch(listOf(arrived))
      settled(need)
      if (running || beginning.followed) needNow(need)
      told()
    },
    async proof() {
      const { last, said, open } = state
      if (open.replacing === 0 || dialect !== 'events-ws' || last.broken || last.snapshot === null)
        return null
      const { snapshot, events: lastEvents } = provenEvents(last, mac)
      return {
        events: lastEvents,
        snapshot: lastEvents.length > 0 ? null : snapshot,
        status: open.status,
        saysNothing: saysNothing(said),
      }
    },
    macOf: mac,
    holdAgainst(snapshot) {
      const arrived = arrive(snapshot)
      const theirs = saidOfList(listOf(arrived), mac)
      const { verdict } = compareSaid(state.said, theirs, mac)
      return { comparison: verdict, empty: saysNothing(theirs.said), status: asText(arrived.data.status) }
    },
    resyncDue() {
      needNow(need)
      told()
    },
    accept(envelope) {
      if (!recent.note(envelope.eventId)) {
        events?.repeated?.(record)
        return
      }
      moved()
      noteLastEvent(state.last, envelope.eventId, envelope.payload, mac)
      const arrived = arrive(envelope)
      if (stitch === null) takeOffered({ event: arrived, overlap: false })
      else settleStitch(offer(stitch, arrived, now()))
      told()
    },
    reject(frame) {
      if (stitch !== null) settleStitch(expire(stitch))
      // What could not be read can't be told apart: nothing of it is kept where something must not be.
      const body = strip === undefined ? frame.body : ''
      deps.quarantine({ ...frame, body, stream: record.id })
      const eventId = `gap:${deps.nextSeq()}`
      const context = { gap: 'upstream_frame_rejected' as const }
      write({ time: frame.time, event: GAP_EVENT, eventId, payload: '', context, mark: false })
    },
    closed(resumable) {
      if (!resumable) closeStitch()
    },
    stopped(time) {
      closeStitch()
      if (state.open.replacing === 0 || state.open.status === 'stopped') return
      const eventId = `stopped:${deps.nextSeq()}`
      moved()
      take(arrive({ eventId, payload: '{"event":"shutdown"}', time }), { masked: true })
      settled(need)
    },
    get resync() {
      const { due, idle } = weigh(need, state.open.status, now())
      return { due: due && deps.resync !== false, idle, version: need.version }
    },
    onResync(to) {
      listener = to
      if (to !== null) told()
    },
    resyncWith(snapshot) {
      // Ahead of the connection: what it says more is still to come there, and would be told twice.
      if (dialect === 'events-ws' && isBeyond(snapshot.cursor, state.last)) return { outcome: 'thrown_away' }
      settled(need)
      const arrived = arrive(snapshot)
      const compared = compareSaid(state.said, saidOfList(listOf(arrived), mac), mac)
      events?.resynced?.(
        record,
        compared.verdict === 'more' ? 'adopted' : compared.verdict,
        compared.verdict === 'differs' ? compared.classes : [],
      )
      if (compared.verdict === 'same') return { outcome: 'same' }
      if (compared.verdict === 'differs') {
        differs = compared.classes
        return { outcome: 'differs', reason: compacted ? 'compacted' : 'upstream_resynced' }
      }
      const run = state.open.run ?? null
      for (const { event, data, time, mac: digest } of compared.missing) {
        const eventId = `resync:${digest.slice(0, 8)}:${deps.nextSeq()}`
        const payload = stringifyJson({ event, data })
        take({ event, data, envelope: { eventId, payload, time: time ?? snapshot.time } }, { adopted: true })
      }
      endAdopted(snapshot.time, run === null && state.open.run != null)
      moved()
      return { outcome: 'adopted' }
    },
  }

  /**
   * A call that is adopted without its result waits for it, and an input that is adopted begins a run that may be
   * rolled back: the status at rest, told again, ends both.
   */
  function endAdopted(time: number, begun: boolean): void {
    const { status } = state.open
    if (status === null || status === 'running') return
    if (!begun && openBlocks(state.open).length === 0) return
    const payload = JSON.stringify({ event: 'status', data: { status } })
    const envelope = { eventId: `resync:status:${deps.nextSeq()}`, payload, time }
    take(arrive(envelope), { adopted: true })
  }

  /** What a snapshot says, as it would be stored. */
  function listOf(arrived: Arrived) {
    const kept = stripped(arrived)
    return expandList('snapshot', kept.data, asSeq(1), { status: null }, kept.notKept).list
  }
}

function resetReasonOf(event: string, context: Context): ResetReason | undefined {
  if (!context.replaces || context.first) return undefined
  if (event === 'rewind_applied') return 'rewound'
  return event === 'segment_rotated' ? 'compacted' : undefined
}
