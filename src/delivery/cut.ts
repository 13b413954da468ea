import { type Cut, LEAF_UNITS_MAX } from '@shoji/web-contract'
import { isRecord, type Json, stringifyJson } from '../lib/json.ts'

/**
 * All leaves of one frame together: escaped at its worst (six bytes a unit) it stays under the frame's cap.
 * A list of very many small values is cut as a long text is.
 */
const FRAME = { units: 120 * 1024, values: 4_000 } as const
/** A key longer than this is nobody's name for anything: its field is left out, and counted as cut. */
const KEY_UNITS_MAX = 256

/**
 * Cuts every leaf text of a value that is over its bound, all of them together at the frame's, and lists
 * and objects of too many values, and says where. Returns the value itself where nothing was to cut.
 * `chars` of a list or object is the length of its JSON.
 */
export function cutLeaves<T>(
  value: T,
  at: string,
  rest: (at: string) => string,
  bounds: { readonly units: number; readonly values: number } = FRAME,
): { value: T; cut: Cut[] } {
  const cut: Cut[] = []
  const budget = { ...bounds }
  const result = visit(value, at, { cut, rest, budget }) as T
  return { value: result, cut }
}

interface Walk {
  readonly cut: Cut[]
  readonly rest: (at: string) => string
  readonly budget: { units: number; values: number }
}

function visit(value: unknown, at: string, walk: Walk): unknown {
  walk.budget.values -= 1
  if (typeof value === 'string') return visitText(value, at, walk)
  if (Array.isArray(value)) return visitParts(value, at, walk)
  if (isRecord(value)) return visitFields(value, at, walk)
  return value
}

function visitText(text: string, at: string, walk: Walk): string {
  const max = Math.min(LEAF_UNITS_MAX, walk.budget.units)
  walk.budget.units -= Math.min(text.length, max)
  if (text.length <= max) return text
  tellCut(text.length, at, walk)
  return text.slice(0, wholeUnits(text, max))
}

const tellCut = (chars: number, at: string, { cut, rest }: Walk): void => {
  cut.push({ at, chars, rest: rest(at) })
}

/** Never half a surrogate pair. */
function wholeUnits(text: string, max: number): number {
  const last = text.charCodeAt(max - 1)
  return last >= 0xd800 && last <= 0xdbff ? max - 1 : max
}

function visitParts(parts: readonly unknown[], at: string, walk: Walk): unknown {
  let changed = false
  const built: unknown[] = []
  for (const [index, part] of parts.entries()) {
    if (walk.budget.values <= 0) {
      tellCut(stringifyJson(parts).length, at, walk)
      return built
    }
    const next = visit(part, `${at}/${index}`, walk)
    changed ||= next !== part
    built.push(next)
  }
  return changed ? built : parts
}

/** A key as a JSON pointer spells it (RFC 6901). */
const pointerPart = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

function visitFields(value: Json, at: string, walk: Walk): unknown {
  const built = Object.create(Object.getPrototypeOf(value)) as Json
  let changed = false
  for (const name of Object.keys(value)) {
    if (walk.budget.values <= 0 || name.length > KEY_UNITS_MAX) {
      if (!changed || walk.cut.at(-1)?.at !== at) tellCut(stringifyJson(value).length, at, walk)
      changed = true
      if (walk.budget.values <= 0) return built
      continue
    }
    walk.budget.units = Math.max(0, walk.budget.units - name.length)
    const next = visit(value[name], `${at}/${pointerPart(name)}`, walk)
    changed ||= next !== value[name]
    built[name] = next
  }
  return changed ? built : value
}
