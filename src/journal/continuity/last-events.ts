import { asRecord, asText, parseJson } from '../../lib/json.ts'
import { isDistinctive } from './distinctive.ts'
import type { Mac } from './utterance.ts'

/** How many events of an incarnation a resume is proven against. */
const LAST_EVENTS = 16
/** Payloads up to this many UTF-16 units are kept until their MAC is asked for; larger ones are digested at once. */
const KEPT_UNITS = 4_096

export interface ProvenEvent {
  /** The upstream's cursor: in `events-ws` an event's id is its cursor. */
  readonly cursor: string
  readonly eventId: string
  /** Of the payload as it arrived. */
  readonly mac: string
  readonly distinctive: boolean
}

interface Kept {
  readonly eventId: string
  readonly payload: string
}

/**
 * The last events of an incarnation and its snapshot, as they arrived. Nearly every event is forgotten again
 * before anyone asks, so a MAC is made when it is asked for.
 */
export interface LastEvents {
  snapshot: ProvenEvent | Kept | null
  readonly events: (ProvenEvent | Kept)[]
  /** Something that arrived is not known as it arrived: nothing can be proven. */
  broken: boolean
}

export const noLastEvents = (): LastEvents => ({ snapshot: null, events: [], broken: false })

/** A snapshot's event id names the cursor it stands at. */
export function beginLastEvents(eventId: string, payload: string, mac: Mac): LastEvents {
  return { snapshot: keep(eventId, payload, mac), events: [], broken: false }
}

export function noteLastEvent(last: LastEvents, eventId: string, payload: string, mac: Mac): void {
  last.events.push(keep(eventId, payload, mac))
  if (last.events.length > LAST_EVENTS) last.events.shift()
}

/** Ids of the upstream's own: those that Shoji mints for a dialect without cursors can't be asked for. */
export const isProvable = ({ snapshot, broken }: LastEvents): boolean =>
  !broken && snapshot !== null && snapshot.eventId.startsWith('snapshot:')

/** Whether a snapshot stands at a cursor after the last event that came. Cursors are hexadecimal, of one length. */
export function isBeyond(cursor: string | undefined, { snapshot, events }: LastEvents): boolean {
  const last = (events.at(-1) ?? snapshot)?.eventId.replace(/^snapshot:/, '')
  if (cursor === undefined || last === undefined) return false
  return cursor.length === last.length ? cursor > last : cursor.length > last.length
}

const keep = (eventId: string, payload: string, mac: Mac): ProvenEvent | Kept =>
  payload.length <= KEPT_UNITS ? { eventId, payload } : prove({ eventId, payload }, mac)

function prove(event: ProvenEvent | Kept, mac: Mac): ProvenEvent {
  if ('mac' in event) return event
  const { eventId, payload } = event
  const parsed = asRecord(parseJson(payload))
  return {
    cursor: eventId.replace(/^snapshot:/, ''),
    eventId,
    mac: mac(payload),
    distinctive: isDistinctive(asText(parsed.event), asRecord(parsed.data)),
  }
}

/** For a checkpoint, and for a proof: everything digested. */
export const provenEvents = (
  last: LastEvents,
  mac: Mac,
): { snapshot: ProvenEvent | null; events: ProvenEvent[] } => ({
  snapshot: last.snapshot === null ? null : prove(last.snapshot, mac),
  events: last.events.map(event => prove(event, mac)),
})
