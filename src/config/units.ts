/** Sizes and durations as people write them: one whole number and one unit. Binary multiples only. */

const BYTES = { TiB: 2 ** 40, GiB: 2 ** 30, MiB: 2 ** 20, KiB: 2 ** 10, B: 1 } as const
const MILLISECONDS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const

type Units = Readonly<Record<string, number>>

const parse = (units: Units, text: string): number | undefined => {
  const [, digits, unit] = /^(\d{1,15})\s?([A-Za-z]+)$/.exec(text) ?? []
  const factor = unit !== undefined && Object.hasOwn(units, unit) ? units[unit] : undefined
  if (factor === undefined) return undefined
  const value = Number(digits) * factor
  return Number.isSafeInteger(value) ? value : undefined
}

const format = (units: Units, value: number): string => {
  const [unit, factor] = Object.entries(units).find(([, size]) => value >= size && value % size === 0) ?? [
    '',
    1,
  ]
  return `${value / factor}${unit}`
}

/** `64MiB` → 67108864. Undefined if it is not a size. */
export const parseBytes = (text: string): number | undefined => parse(BYTES, text)
/** `7d` → 604800000. Undefined if it is not a duration. */
export const parseDuration = (text: string): number | undefined => parse(MILLISECONDS, text)
export const formatBytes = (bytes: number): string => format(BYTES, bytes)
export const formatDuration = (ms: number): string => format(MILLISECONDS, ms)
