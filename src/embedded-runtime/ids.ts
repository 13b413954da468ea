/** Fresh UUIDv7 strings. `random` returns numbers in [0, 1). */
export const createIds = (now: () => number, random: () => number): (() => string) => {
  const hex = (length: number): string => {
    let out = ''
    for (let index = 0; index < length; index += 1) out += Math.floor(random() * 16).toString(16)
    return out
  }
  return () => {
    const time = Math.floor(now()).toString(16).padStart(12, '0').slice(-12)
    const variant = (8 + Math.floor(random() * 4)).toString(16)
    return `${time.slice(0, 8)}-${time.slice(8)}-7${hex(3)}-${variant}${hex(3)}-${hex(12)}`
  }
}

const uuidV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const maxU64 = 18_446_744_073_709_551_615n

export const isUuidV7 = (text: string): boolean => uuidV7.test(text)

/** The canonical decimal of a `u64`, `undefined` if it is none. `01` is 1. */
export const parseU64 = (text: string): string | undefined => {
  if (!/^\+?\d{1,40}$/.test(text)) return undefined
  const value = BigInt(text.replace('+', ''))
  return value > maxU64 ? undefined : value.toString()
}
