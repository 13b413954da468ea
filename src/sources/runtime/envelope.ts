import type { Envelope } from '../../journal/entry.ts'
import type { QuarantinedFrame } from '../../journal/journal.ts'
import { asRecord, isRecord, nestsTooDeep, parseJson } from '../../lib/json.ts'
import type { Dialect } from '../source.ts'
import { sliceMembers } from './json-slice.ts'

interface EventFrame {
  readonly kind: 'event'
  readonly event: string
  readonly envelope: Envelope
}

/** What one text frame says. */
export type WireFrame =
  | EventFrame
  | { readonly kind: 'diagnostic'; readonly code: string }
  | {
      readonly kind: 'unreadable'
      readonly cause: Extract<QuarantinedFrame['cause'], 'malformed' | 'foreign_worker'>
    }

export interface FrameOrigin {
  readonly dialect: Dialect
  /** The worker whose connection it is. */
  readonly worker: string
  /** Names this connection among all that ever were, restarts of this process included. */
  readonly connection: string
}

const MALFORMED = { kind: 'unreadable', cause: 'malformed' } as const
const FOREIGN = { kind: 'unreadable', cause: 'foreign_worker' } as const

const NAME_MAX = 128
const ID_MAX = 256
/** Names of our own entries: an upstream event must not pass for one. */
const OWN_NAMES = 'shoji.'

/** The order of keys and the spacing that the Runtime writes. */
const USUAL =
  /^\{"kind":"event","envelope":\{"cursor":"([^"\\]*)","event_id":"([^"\\]*)","worker_id":(\d+|"[^"\\]*"),"payload":/
const USUAL_END = '}}'

const eventOf = (payload: unknown): string | undefined => {
  if (!isRecord(payload)) return undefined
  const { event } = payload
  if (typeof event !== 'string' || event === '' || event.length > NAME_MAX) return undefined
  return event.startsWith(OWN_NAMES) ? undefined : event
}

/** A worker id as text: a JSON number of any size in the first generation, a string in the second (R2). */
const workerText = (raw: string): string => (raw.startsWith('"') ? String(JSON.parse(raw)) : raw)

interface Numbered {
  readonly cursor?: string
  readonly eventId: string
  readonly worker: string
  readonly payload: string
  readonly parsed: unknown
}

const readUsual = (text: string): Numbered | undefined => {
  const match = USUAL.exec(text)
  if (match === null || !text.endsWith(USUAL_END)) return undefined
  const [head, cursor = '', eventId = '', worker = ''] = match
  const payload = text.slice(head.length, -USUAL_END.length)
  try {
    // What parses here ends where the envelope does: anything after it would not.
    return { cursor, eventId, worker: workerText(worker), payload, parsed: parseJson(payload) }
  } catch {
    return undefined
  }
}

const readAnyOrder = (text: string): Numbered | { readonly diagnostic: string } | undefined => {
  const whole = asRecord(parseJson(text))
  if (whole.kind === 'diagnostic') {
    const { code } = asRecord(whole.diagnostic)
    return { diagnostic: typeof code === 'string' ? code : '' }
  }
  const envelope = asRecord(whole.envelope)
  const { cursor, event_id: eventId } = envelope
  if (whole.kind !== 'event' || typeof eventId !== 'string' || !isRecord(envelope.payload)) return undefined
  const members = sliceMembers(sliceMembers(text).get('envelope') ?? '')
  const worker = members.get('worker_id')
  const payload = members.get('payload')
  if (worker === undefined || payload === undefined) return undefined
  return {
    ...(typeof cursor === 'string' ? { cursor } : {}),
    eventId,
    worker: workerText(worker),
    payload,
    parsed: envelope.payload,
  }
}

const readNumbered = (text: string, origin: FrameOrigin, time: number): WireFrame => {
  const read = readUsual(text) ?? readAnyOrder(text)
  if (read === undefined) return MALFORMED
  if ('diagnostic' in read) return { kind: 'diagnostic', code: read.diagnostic }
  if (read.worker !== origin.worker) return FOREIGN
  const event = eventOf(read.parsed)
  const { cursor, eventId, payload, parsed } = read
  if (event === undefined || eventId === '' || eventId.length > ID_MAX) return MALFORMED
  if (cursor !== undefined && cursor.length > ID_MAX) return MALFORMED
  const envelope =
    cursor === undefined ? { eventId, payload, parsed, time } : { eventId, cursor, payload, parsed, time }
  return { kind: 'event', event, envelope }
}

const readBare = (text: string, origin: FrameOrigin, position: number, time: number): WireFrame => {
  const parsed = parseJson(text)
  const event = eventOf(parsed)
  if (event === undefined) return MALFORMED
  return {
    kind: 'event',
    event,
    envelope: { eventId: `${origin.connection}:${position}`, payload: text, parsed, time },
  }
}

/**
 * Reads one text frame. The payload of its envelope is the text as it came, to the byte, and is valid JSON
 * with an `event` name. `position` counts the frames of the connection; `time` is when it came. Never throws.
 */
export const readFrame = (text: string, origin: FrameOrigin, position: number, time: number): WireFrame => {
  if (nestsTooDeep(text)) return MALFORMED
  try {
    return origin.dialect === 'events-ws'
      ? readNumbered(text, origin, time)
      : readBare(text, origin, position, time)
  } catch {
    // Bad JSON, or nested beyond what can be parsed.
    return MALFORMED
  }
}

const EVENT_HINT =
  /^\{(?:"kind":"event","envelope":\{"cursor":"[^"\\]*","event_id":"[^"\\]*","worker_id":(?:\d+|"[^"\\]*"),"payload":\{)?"event":"([^"\\]*)"/

/** The event's name from the first bytes of a frame, where they stand in the usual order; it need not be parsed for it. */
export const eventHint = (head: string): string | undefined => EVENT_HINT.exec(head)?.[1]
