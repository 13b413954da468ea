import type { Dialect } from '../source.ts'

export type DialectChoice = Dialect | 'auto'

/**
 * Which dialects to try, the likelier first. `auto` begins with `events-ws`: a first-generation Runtime has
 * the other route as well, and says nothing on it (R43).
 */
export class Dialects {
  readonly #choice: DialectChoice
  #found: Dialect | null = null

  constructor(choice: DialectChoice) {
    this.#choice = choice
  }

  candidates(): readonly Dialect[] {
    if (this.#choice !== 'auto') return [this.#choice]
    return this.#found === 'protocol-ws' ? ['protocol-ws', 'events-ws'] : ['events-ws', 'protocol-ws']
  }

  found(dialect: Dialect): void {
    this.#found = dialect
  }

  /** The Runtime may have been replaced by one of another generation. */
  forget(): void {
    this.#found = null
  }
}

const ROUTES = { 'events-ws': 'events/ws', 'protocol-ws': 'protocol/ws' } as const

/** Address of a worker's observation socket. The worker's id comes from a listing, the cursor from its Runtime. */
export const observationUrl = (url: string, worker: string, dialect: Dialect, cursor?: string): string => {
  const base = url.replace(/^http/, 'ws').replace(/\/+$/, '')
  const query = cursor === undefined ? '' : `?cursor=${encodeURIComponent(cursor)}`
  return `${base}/v1/workers/${encodeURIComponent(worker)}/${ROUTES[dialect]}${query}`
}
