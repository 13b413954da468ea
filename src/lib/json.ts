import { parse as parseLossless, stringify as stringifyLossless } from 'lossless-json'

/** A number of sixteen digits or more: `JSON.parse` would round it. */
const LONG_NUMBER = /[:[,]\s*-?\d{16,}/

/** Parses JSON text with integers beyond 2^53 kept exact (as bigint). Throws SyntaxError on bad text. */
export function parseJson(text: string): unknown {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text)
  return parseLossless(text, undefined, { parseNumber: exactNumber })
}

/** An unsigned 64-bit integer has 20 digits; beyond this many nobody counts, and exactness costs seconds. */
const EXACT_DIGITS_MAX = 40

function exactNumber(digits: string): number | bigint {
  const number = Number(digits)
  if (digits.length > EXACT_DIGITS_MAX) return number
  return /^-?\d+$/.test(digits) && !Number.isSafeInteger(number) ? BigInt(digits) : number
}

/** JSON text of a value that may hold bigints. Line breaks and U+2028 inside strings come out escaped or inert. */
export function stringifyJson(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch {
    return stringifyLossless(value) ?? 'null'
  }
}

export type Json = Record<string, unknown>

export const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const asRecord = (value: unknown): Json => (isRecord(value) ? value : {})
export const asArray = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
export const asText = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Shallower texts can't nest deeper than this; only longer ones are walked. */
const DEPTH_MAX = 512

/**
 * Whether a JSON text nests deeper than anything real: copying or writing such a value would exhaust the stack.
 * One walk over the text, and none where it is too short to be deep.
 */
export function nestsTooDeep(text: string): boolean {
  if (text.length < 2 * DEPTH_MAX) return false
  let depth = 0
  let inString = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (inString) {
      if (code === BACKSLASH) i += 1
      else if (code === QUOTE) inString = false
    } else if (code === QUOTE) inString = true
    else if (code === OPEN_OBJECT || code === OPEN_LIST) {
      depth += 1
      if (depth > DEPTH_MAX) return true
    } else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth -= 1
  }
  return false
}

const [QUOTE, BACKSLASH, OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST] = [
  0x22, 0x5c, 0x7b, 0x7d, 0x5b, 0x5d,
]
