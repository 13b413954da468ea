import { ShojiError } from '../lib/error.ts'
import type { Subject } from '../projection/view.ts'
import { type Authenticator, expired, unauthenticated } from './authenticator.ts'
import type { SessionCookie } from './cookie.ts'
import type { SessionStore } from './sessions.ts'
import { type CallerRequest, type CallerRules, cookieCounts } from './who.ts'

export interface Identified {
  readonly subject: Subject
  /** What established it. */
  readonly by: 'none' | 'token' | 'session'
}

export interface IdentityParts {
  readonly authenticator: Authenticator
  readonly sessions: SessionStore
  readonly cookie: SessionCookie
  readonly rules: CallerRules
  readonly now: () => number
}

/**
 * Who makes a request: by its token, else by its session. A token that is not valid is refused even where a
 * valid cookie stands beside it, so that nobody acts under another name than they gave.
 */
export const createIdentify =
  ({ authenticator, sessions, cookie, rules, now }: IdentityParts) =>
  async (request: CallerRequest): Promise<Identified | ShojiError> => {
    if (rules.authMode === 'none' || request.headers.get('authorization') !== null) {
      const subject = authenticator.authenticate(request.headers)
      if (subject instanceof ShojiError) return subject
      return { subject, by: rules.authMode === 'none' ? 'none' : 'token' }
    }
    const id = cookieCounts(request, rules) ? cookie.read(request.headers) : undefined
    if (id === undefined) return unauthenticated()
    const subject = await sessions.lookup(id, now())
    if (subject === undefined) return unauthenticated()
    return subject === 'expired' ? expired() : { subject, by: 'session' }
  }
