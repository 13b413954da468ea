import { asRecord, type Json, parseJson } from '../lib/json.ts'
import {
  beginLastEvents,
  type LastEvents,
  noLastEvents,
  noteLastEvent,
  provenEvents,
} from './continuity/last-events.ts'
import { emptySaid, type Said, say, sayLogged } from './continuity/said.ts'
import { saidOfList } from './continuity/said-list.ts'
import type { Mac } from './continuity/utterance.ts'
import { asSeq, type Entry, type Seq } from './entry.ts'
import { expandList } from './expand.ts'
import type { Journal, StreamRecord } from './journal.ts'
import {
  decodeOpenState,
  emptyOpenState,
  encodeOpenState,
  OPEN_STATE_VERSION,
  type OpenState,
} from './open-state.ts'
import { flatten, step } from './step.ts'

const RECOVERY_PAGE = { maxRows: 1_000, maxBytes: 8 * 1024 * 1024 }

/** Everything of a stream that the next event is understood by. */
export interface StreamState {
  open: OpenState
  said: Said
  last: LastEvents
}

const emptyStreamState = (): StreamState => ({
  open: emptyOpenState(),
  said: emptySaid(),
  last: noLastEvents(),
})

export const encodeStreamState = ({ open, said, last }: StreamState, mac: Mac): string =>
  `{"open":${encodeOpenState(open)},"said":${JSON.stringify(said)},"last":${JSON.stringify(
    last.broken ? null : provenEvents(last, mac),
  )}}`

function decodeStreamState(text: string): StreamState {
  const raw = parseJson(text) as { open: unknown; said: Said; last: Omit<LastEvents, 'broken'> | null }
  return {
    open: decodeOpenState(raw.open),
    said: raw.said,
    last: raw.last === null ? { ...noLastEvents(), broken: true } : { ...raw.last, broken: false },
  }
}

/** What is open at a position: from the newest good checkpoint, or the newest list-replacing entry, on. */
export async function recoverOpenState(
  journal: Journal,
  record: StreamRecord,
  through: Seq = journal.head,
): Promise<OpenState> {
  const state = emptyStreamState()
  await recover(journal, record, through, state, entry => refold(state.open, entry))
  return state.open
}

/** The whole state of a stream at the head. */
export async function recoverStreamState(
  journal: Journal,
  record: StreamRecord,
  mac: Mac,
): Promise<StreamState> {
  const state = emptyStreamState()
  await recover(journal, record, journal.head, state, entry => {
    refoldWhole(state, entry, mac)
    refold(state.open, entry)
  })
  return state
}

async function recover(
  journal: Journal,
  record: StreamRecord,
  through: Seq,
  state: StreamState,
  take: (entry: Entry) => void,
): Promise<void> {
  const checkpoint = await journal.readCheckpoint(record.id, through)
  let after: Seq = asSeq(0)
  if (checkpoint !== null && checkpoint.version === OPEN_STATE_VERSION) {
    Object.assign(state, decodeStreamState(checkpoint.state))
    after = checkpoint.seq
  } else {
    const replacing = await journal.readReplacing(record.id, through)
    if (replacing !== null) after = asSeq(replacing.seq - 1)
  }
  for (;;) {
    const page = await journal.readAfter([record.id], after, RECOVERY_PAGE)
    for (const entry of page.entries) if (entry.seq <= through) take(entry)
    after = page.through
    if (page.atHead || after >= through) return
  }
}

const dataOf = (entry: Entry): Json => asRecord(asRecord(parseJson(entry.payload)).data)

/** Takes a stored entry into what is open again. */
function refold(open: OpenState, entry: Entry): void {
  if (entry.context.gap !== undefined || entry.context.overlap || entry.context.doubled) return
  step(open, entry.event, dataOf(entry), { seq: entry.seq, index: 0 }, entry.context.notKept)
}

/** To be called before `refold`: a list is expanded with what it carries over. */
function refoldWhole(state: StreamState, entry: Entry, mac: Mac): void {
  const { context, eventId, payload } = entry
  if (context.gap !== undefined) return
  const data = dataOf(entry)
  if (!context.adopted && !context.masked) {
    if (entry.event === 'snapshot') state.last = beginLastEvents(eventId, payload, mac)
    else noteLastEvent(state.last, eventId, payload, mac)
    // It arrived as something else, and its MAC is of that.
    if (context.notKept !== undefined) state.last.broken = true
  }
  if (context.overlap || context.doubled) return
  saysEvent(state, entry.event, data, context, mac)
}

/** What an event that is folded into the stream says. `open` is the state before it. */
export function saysEvent(
  state: Pick<StreamState, 'open' | 'said'>,
  event: string,
  data: Json,
  context: Entry['context'],
  mac: Mac,
): void {
  if (context.replaces) {
    const { status, usage, greeting } = state.open
    const { list } = expandList(event, data, asSeq(1), { status, usage, greeting }, context.notKept)
    state.said = saidOfList(list, mac, event === 'snapshot' ? undefined : state.said).said
    return
  }
  const flat = flatten(event, data)
  if (flat.scope !== '') return
  if (context.adopted) sayLogged(state.said, flat.event, flat.data, mac)
  else say(state.said, flat.event, flat.data, mac)
}
