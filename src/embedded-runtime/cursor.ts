const digits = 16
const prefix = 'wo_'

/** `wo_` and 16 lower-case hex digits. */
export const formatCursor = (position: number | bigint): string =>
  prefix + position.toString(16).padStart(digits, '0')

/**
 * Accepts what the Runtime's `u64::from_str_radix` accepts in exactly 16 characters: upper case and a
 * leading `+` too (R15). Anything else is malformed: `undefined`.
 */
export const parseCursor = (raw: string): bigint | undefined => {
  if (!raw.startsWith(prefix) || raw.length !== prefix.length + digits) return undefined
  const hex = /^\+?([0-9a-fA-F]+)$/.exec(raw.slice(prefix.length))?.[1]
  return hex === undefined ? undefined : BigInt(`0x${hex}`)
}
