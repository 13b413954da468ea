/**
 * Times that mean the same in every process of this machine: microseconds of the monotonic clock. A text
 * carries the moment its event was due, not the one at which a busy loop came round to it, so that a sender
 * that stands still cannot hide the wait it causes.
 */
export const nowUs = (): number => Number(process.hrtime.bigint() / 1000n)

const DIGITS = 13
const MARK = Buffer.from('T#')

/** `T#` and 13 digits: no id on the wire can hold a `#`. */
export const stampText = (us: number): string => `T#${String(Math.floor(us)).padStart(DIGITS, '0')}`

export const STAMP_CHARS = DIGITS + 2

/** The first whole stamp in some bytes, or NaN. */
export const readStamp = (bytes: Buffer): number => {
  const at = bytes.indexOf(MARK)
  if (at < 0 || at + STAMP_CHARS > bytes.length) return Number.NaN
  let us = 0
  for (let i = at + 2; i < at + STAMP_CHARS; i += 1) us = us * 10 + (bytes[i] ?? 48) - 48
  return us
}

/** Stands in a frame's template where the stamp goes. */
export const STAMP_HOLE = '<<stamp>>'
