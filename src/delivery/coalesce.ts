import type { EnvelopeData, Frame } from '@shoji/web-contract'
import { asRecord, asText } from '../lib/json.ts'

/** Joined texts stay under a leaf's bound, so that a joined frame is never cut where its parts were not. */
const JOINED_UNITS_MAX = 32 * 1024

/**
 * Makes a replay shorter and changes nothing that it says: consecutive deltas of one block become one frame
 * with the last one's id, and deltas whose `…_done` follows in the same page are left out. Only frames that
 * follow each other within their worker are joined, and never over anything that begins an item, ends a
 * block or replaces the list; so reducing the result is reducing the frames.
 */
export function coalesce(frames: readonly Frame[]): Frame[] {
  const out: (Frame | null)[] = []
  /** By worker: where in `out` its newest frame stands, if that is a delta that may still grow. */
  const growing = new Map<string, number>()
  for (const frame of frames) {
    if (frame.event === 'beat' || frame.event === 'status' || frame.event === 'command') {
      out.push(frame)
      continue
    }
    if (frame.event !== 'envelope') {
      growing.clear()
      out.push(frame)
      continue
    }
    const worker = `${frame.data.runtime}/${frame.data.worker}`
    const index = growing.get(worker)
    const before = index === undefined ? undefined : out[index]
    const joined = before?.event === 'envelope' ? join(before.data, frame.data) : null
    if (index !== undefined && joined !== null) out[index] = null
    out.push(joined === null ? frame : { ...frame, data: joined })
    if (textOf(joined ?? frame.data) === null) growing.delete(worker)
    else growing.set(worker, out.length - 1)
  }
  return out.filter(frame => frame !== null)
}

interface Text {
  readonly kind: 'delta' | 'done'
  readonly of: string
  readonly text: string
}

/** The text an envelope carries, through the internal workers around it; null where it carries none. */
function textOf(data: EnvelopeData): Text | null {
  if (data.tails !== undefined || data.cut !== undefined) return null
  const { event, data: inner } = innermost(data.event, data.data)
  const match = /^(text|thinking)_(delta|done)$/.exec(event)
  if (match === null) return null
  return { of: match[1]!, kind: match[2] as Text['kind'], text: asText(inner.text) }
}

function innermost(event: string, data: EnvelopeData['data']): { event: string; data: EnvelopeData['data'] } {
  while (event === 'internal_worker') {
    const inner = asRecord(data.event)
    event = asText(inner.event)
    data = asRecord(inner.data)
  }
  return { event, data }
}

/** Two frames that follow each other as one, or null where they must stay two. */
function join(before: EnvelopeData, after: EnvelopeData): EnvelopeData | null {
  const first = textOf(before)
  const second = textOf(after)
  if (first === null || second === null || first.kind !== 'delta' || first.of !== second.of) return null
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
