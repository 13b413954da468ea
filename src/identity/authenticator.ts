import { timingSafeEqual } from 'node:crypto'
import type { AuthConfig, TokenConfig } from '../config/config.ts'
import { ShojiError } from '../lib/error.ts'
import type { Subject } from '../projection/view.ts'
import { hashToken } from './token.ts'

/** What is needed of a request's headers; `Headers` is one. Repeated headers arrive joined by commas. */
export interface HeaderLookup {
  get(name: string): string | null
}

export interface Authenticator {
  /** The subject, or `unauthenticated` or `credentials_expired`. Never throws. */
  authenticate(headers: HeaderLookup): Subject | ShojiError
}

/** Longer headers are refused unread: hashing is the one cost an unknown caller can cause. */
export const CREDENTIAL_HEADER_BYTES_MAX = 8 * 1024

/** The user of `mode: none`. */
const LOCAL_USER = 'local'

export const createAuthenticator = (auth: AuthConfig, { now }: { now: () => number }): Authenticator => {
  if (auth.mode === 'none') {
    const local: Subject = { user: LOCAL_USER, ...auth.local }
    return { authenticate: () => local }
  }
  const known = auth.tokens.map(token => ({
    hash: Buffer.from(token.sha256, 'hex'),
    subject: toSubject(token),
  }))
  return {
    authenticate: headers => {
      const token = bearerToken(headers)
      if (token === undefined) return unauthenticated()
      const hash = hashToken(token)
      // Every token is compared, found or not: time says nothing of which ones exist.
      let found: Subject | undefined
      for (const candidate of known) if (timingSafeEqual(candidate.hash, hash)) found = candidate.subject
      if (found === undefined) return unauthenticated()
      return isExpired(found, now()) ? expired() : found
    },
  }
}

export const unauthenticated = (): ShojiError => new ShojiError('unauthenticated', 'no valid credentials')
export const expired = (): ShojiError => new ShojiError('credentials_expired', 'the credentials have expired')

/** At its last moment an identity has ended. */
export const isExpired = (subject: Subject, now: number): boolean =>
  subject.expiresAt !== undefined && now >= subject.expiresAt

const bearerToken = (headers: HeaderLookup): string | undefined => {
  const value = headers.get('authorization')
  if (value === null || value.length > CREDENTIAL_HEADER_BYTES_MAX) return undefined
  return /^Bearer +([\w.~+/=-]+)$/i.exec(value)?.[1]
}

const toSubject = ({ id, roles, groups, expiresAt }: TokenConfig): Subject => ({
  user: id,
  roles,
  groups,
  ...(expiresAt === undefined ? {} : { expiresAt }),
})
