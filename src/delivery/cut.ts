import { type Cut, LEAF_UNITS_MAX } from '@shoji/web-contract'
import { isRecord, type Json } from '../lib/json.ts'

/** All leaves of one frame together: escaped at its worst (six bytes a unit) it stays under the frame's cap. */
const FRAME_UNITS_MAX = 150 * 1024

/**
 * Cuts every leaf text of a value that is over its bound, and all of them together at the frame's, and says
 * where. Returns the value itself where nothing was to cut.
 */
export function cutLeaves<T>(value: T, at: string, rest: (at: string) => string): { value: T; cut: Cut[] } {
  const cut: Cut[] = []
  const budget = { units: FRAME_UNITS_MAX }
  const result = visit(value, at, { cut, rest, budget }) as T
  return { value: result, cut }
}

interface Walk {
  readonly cut: Cut[]
  readonly rest: (at: string) => string
  readonly budget: { units: number }
}

function visit(value: unknown, at: string, walk: Walk): unknown {
  if (typeof value === 'string') return visitText(value, at, walk)
  if (Array.isArray(value)) return visitParts(value, at, walk)
  if (isRecord(value)) return visitFields(value, at, walk)
  return value
}

function visitText(text: string, at: string, walk: Walk): string {
  const max = Math.min(LEAF_UNITS_MAX, walk.budget.units)
  walk.budget.units -= Math.min(text.length, max)
  if (text.length <= max) return text
  walk.cut.push({ at, chars: text.length, rest: walk.rest(at) })
  return text.slice(0, wholeUnits(text, max))
}

/** Never half a surrogate pair. */
function wholeUnits(text: string, max: number): number {
  const last = text.charCodeAt(max - 1)
  return last >= 0xd800 && last <= 0xdbff ? max - 1 : max
}

function visitParts(parts: readonly unknown[], at: string, walk: Walk): unknown {
  let changed = false
  const built = parts.map((part, index) => {
    const next = visit(part, `${at}/${index}`, walk)
    changed ||= next !== part
    return next
  })
  return changed ? built : parts
}

function visitFields(value: Json, at: string, walk: Walk): unknown {
  let built: Json | undefined
  for (const name of Object.keys(value)) {
    const next = visit(value[name], `${at}/${name}`, walk)
    if (next === value[name]) continue
    built ??= Object.assign(Object.create(Object.getPrototypeOf(value)), value) as Json
    built[name] = next
  }
  return built ?? value
}
