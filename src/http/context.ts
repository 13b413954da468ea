import type { HttpBindings } from '@hono/node-server'
import type { Receipt } from '@shoji/web-contract'
import type { Context } from 'hono'
import type { Delivery } from '../delivery/delivery.ts'
import type { Folding } from '../delivery/fold.ts'
import type { KnownWorker } from '../delivery/selection.ts'
import type { SessionCookie } from '../identity/cookie.ts'
import type { Identified } from '../identity/identify.ts'
import type { SessionStore } from '../identity/sessions.ts'
import type { CallerRequest, CallerRules } from '../identity/who.ts'
import type { ShojiError } from '../lib/error.ts'
import type { CompiledPolicy, Subject } from '../projection/view.ts'
import type { StatusChange } from '../sources/source.ts'

/** Everything the routes need, made by the composition root. */
export interface HttpDeps {
  readonly rules: CallerRules
  readonly identify: (request: CallerRequest) => Promise<Identified | ShojiError>
  readonly sessions: SessionStore
  readonly cookie: SessionCookie
  readonly policy: () => CompiledPolicy
  readonly delivery: Delivery
  readonly folding: Folding
  /** Every worker that is known, listed or journaled. */
  readonly workers: () => readonly KnownWorker[]
  readonly runtimes: readonly string[]
  readonly upstream: (runtime: string, worker?: string) => StatusChange
  /** Asks the source for a worker that is not connected; no-op for others. */
  readonly wanted: (runtime: string, worker: string) => void
  readonly sendInput: (at: KnownWorker, subject: Subject, content: string) => Promise<Receipt>
  readonly statusOf: (worker: KnownWorker, subject: Subject) => string | null
  readonly ready: () => { ready: boolean; detail: Record<string, unknown> }
  readonly limits: { readonly requestBytes: number; readonly history: number }
  readonly now: () => number
  readonly log: {
    readonly warn: (facts: object, message: string) => void
    readonly error: (facts: object, message: string) => void
  }
}

export interface Env {
  Bindings: HttpBindings
  Variables: { subject: Subject; by: Identified['by'] }
}

export type Ctx = Context<Env>
