import { createHash } from 'node:crypto'

const PREFIX = 'shj_'
const BYTES = 32

/** A bearer token of 256 random bits; the prefix lets scanners find one that leaked. */
export const createToken = (
  random: (bytes: number) => Buffer,
): { readonly token: string; readonly sha256: string } => {
  const token = PREFIX + random(BYTES).toString('base64url')
  return { token, sha256: hashToken(token).toString('hex') }
}

/** Tokens hold 256 random bits, so one plain hash is enough: there is nothing to guess from. */
export const hashToken = (token: string): Buffer => createHash('sha256').update(token).digest()
