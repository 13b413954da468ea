import type { EnvelopeData, Frame } from '@shoji/web-contract'
import { flatten } from '../journal/step.ts'
import { asRecord, asText } from '../lib/json.ts'

/** Joined texts stay under a leaf's bound, so that a joined frame is never cut where its parts were not. */
const JOINED_UNITS_MAX = 32 * 1024

/**
 * Makes a replay shorter and changes nothing that it says: consecutive deltas of one block become one frame
 * with the last one's id, and deltas that their `…_done` follows at once are left out. Only neighbours are
 * joined: over another worker's frame, the id between them would name a place before which a part is missing,
 * and a client cut there would never get it. Nor over anything that begins an item, ends a block or replaces
 * the list; so reducing the result is reducing the frames, wherever it is cut.
 */
export function coalesce(frames: readonly Frame[]): Frame[] {
  const out: Frame[] = []
  for (const frame of frames) {
    const before = out.at(-1)
    const joined =
      before?.event === 'envelope' && frame.event === 'envelope' ? join(before.data, frame.data) : null
    if (joined === null || frame.event !== 'envelope') out.push(frame)
    else out[out.length - 1] = { ...frame, data: joined }
  }
  return out
}

interface Text {
  readonly kind: 'delta' | 'done'
  readonly of: string
  readonly text: string
}

/** The text an envelope carries, through the internal workers around it; null where it carries none. */
function textOf(data: EnvelopeData): Text | null {
  if (data.tails !== undefined || data.cut !== undefined) return null
  const { event, data: inner } = flatten(data.event, data.data)
  const match = /^(text|thinking)_(delta|done)$/.exec(event)
  if (match === null) return null
  return { of: match[1]!, kind: match[2] as Text['kind'], text: asText(inner.text) }
}

/** The internal workers around an event: what each frame tells of them has to be told. */
function wrapping({ event, data }: { event: string; data: EnvelopeData['data'] }): string {
  if (event !== 'internal_worker') return ''
  const inner = asRecord(data.event)
  return `${JSON.stringify(data.worker)}${wrapping({ event: asText(inner.event), data: asRecord(inner.data) })}`
}

/** Two frames that follow each other as one, or null where they must stay two. */
function join(before: EnvelopeData, after: EnvelopeData): EnvelopeData | null {
  const first = textOf(before)
  const second = textOf(after)
  if (first === null || second === null || first.kind !== 'delta' || first.of !== second.of) return null
  if (before.runtime !== after.runtime || before.worker !== after.worker) return null
  if (wrapping(before) !== wrapping(after)) return null
  if (before.block === undefined || before.block !== after.block || before.item !== after.item) return null
  if (before.withheld !== undefined || after.withheld !== undefined || after.begins === true) return null
  const begins = before.begins === true ? { begins: true as const } : {}
  if (second.kind === 'done') return { ...after, ...begins }
  if (first.text.length + second.text.length > JOINED_UNITS_MAX) return null
  return { ...after, ...begins, data: withText(after.event, after.data, first.text + second.text) }
}

function withText(event: string, data: EnvelopeData['data'], text: string): EnvelopeData['data'] {
  if (event !== 'internal_worker') return { ...data, text }
  const inner = asRecord(data.event)
  return { ...data, event: { ...inner, data: withText(asText(inner.event), asRecord(inner.data), text) } }
}
