import { createHash } from 'node:crypto'
import type { Subject } from '../projection/view.ts'
import { isExpired } from './authenticator.ts'

/**
 * Browser sessions, opened with a token. Ids are opaque and hold 256 random bits; a store keeps their hashes
 * alone. Narrow and asynchronous, since a store shared by several nodes will follow.
 * Every implementation runs `test/suites/session-store-suite.ts`.
 */
export interface SessionStore {
  /** Opens a session that ends with the subject's credentials, or after `SESSION_MS_MAX`. */
  create(subject: Subject, now: number): Promise<Session>
  /** The subject, its `expiresAt` that of the session. */
  lookup(id: string, now: number): Promise<Subject | 'expired' | undefined>
  /** Ends a session. Unknown ids are no error. */
  delete(id: string): Promise<void>
}

interface Session {
  readonly id: string
  readonly expiresAt: number
}

export const SESSION_MS_MAX = 12 * 3_600_000

export interface SessionLimits {
  /** In all. Past it the oldest session is dropped. */
  readonly sessions: number
  /** Of one user, so that nobody drops another's sessions by opening their own. */
  readonly sessionsPerUser: number
}

const LIMITS: SessionLimits = { sessions: 10_000, sessionsPerUser: 32 }
const ID_BYTES = 32

/** Sessions of this process: a restart ends them all. */
export const createMemorySessions = (
  random: (bytes: number) => Buffer,
  limits: SessionLimits = LIMITS,
): SessionStore => {
  /** In the order of opening, oldest first. */
  const byHash = new Map<string, Subject & { readonly expiresAt: number }>()

  const dropOldest = (count: number, matches: (subject: Subject) => boolean): void => {
    let left = count
    for (const [hash, subject] of byHash) {
      if (left <= 0) return
      if (!matches(subject)) continue
      byHash.delete(hash)
      left -= 1
    }
  }
  const makeRoom = (user: string): void => {
    let own = 0
    for (const subject of byHash.values()) if (subject.user === user) own += 1
    dropOldest(own - limits.sessionsPerUser + 1, subject => subject.user === user)
    dropOldest(byHash.size - limits.sessions + 1, () => true)
  }

  return {
    create: async (subject, now) => {
      makeRoom(subject.user)
      const id = random(ID_BYTES).toString('base64url')
      const expiresAt = Math.min(subject.expiresAt ?? Number.POSITIVE_INFINITY, now + SESSION_MS_MAX)
      byHash.set(hashId(id), { ...subject, expiresAt })
      return { id, expiresAt }
    },
    lookup: async (id, now) => {
      const hash = hashId(id)
      const subject = byHash.get(hash)
      if (subject === undefined || !isExpired(subject, now)) return subject
      byHash.delete(hash)
      return 'expired'
    },
    delete: async id => {
      byHash.delete(hashId(id))
    },
  }
}

/** Looking a hash up takes no secret-dependent time that helps: the id behind it can't be found from it. */
const hashId = (id: string): string => createHash('sha256').update(id).digest('base64url')
