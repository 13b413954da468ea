import { parse as parseLossless, stringify as stringifyLossless } from 'lossless-json'

/** A number of sixteen digits or more: `JSON.parse` would round it. */
const LONG_NUMBER = /[:[,]\s*-?\d{16,}/

/** Parses JSON text with integers beyond 2^53 kept exact (as bigint). Throws SyntaxError on bad text. */
export function parseJson(text: string): unknown {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text)
  return parseLossless(text, undefined, { parseNumber: exactNumber })
}

function exactNumber(digits: string): number | bigint {
  const number = Number(digits)
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
