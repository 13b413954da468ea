import type { Clock } from '../../lib/clock.ts'
import { codeOf } from '../../lib/error.ts'
import { Wake } from '../../lib/wake.ts'
import { backoffMs } from './backoff.ts'
import type { RuntimeLimits } from './limits.ts'
import type { Listing, RuntimeRest } from './rest.ts'

interface DiscoveryDeps {
  readonly rest: RuntimeRest
  readonly limits: Pick<RuntimeLimits, 'pollMs' | 'retry'>
  readonly clock: Clock
  readonly random: () => number
  readonly listed: (listing: Listing) => void
  readonly failed: (code: string) => void
}

/** Asks a Runtime for its workers, every `pollMs` and when poked, sooner while it fails, until the signal aborts. */
export class Discovery {
  readonly #deps: DiscoveryDeps
  readonly #wake: Wake

  constructor(deps: DiscoveryDeps) {
    this.#deps = deps
    this.#wake = new Wake(deps.clock)
  }

  poke(): void {
    this.#wake.call()
  }

  async run(signal: AbortSignal): Promise<void> {
    const { rest, limits, random, listed, failed } = this.#deps
    let failures = 0
    while (!signal.aborted) {
      try {
        const listing = await rest.workers(signal)
        failures = 0
        listed(listing)
      } catch (error) {
        if (signal.aborted) return
        failures += 1
        failed(codeOf(error) ?? 'internal')
      }
      const wait =
        failures === 0
          ? limits.pollMs
          : Math.min(limits.pollMs, backoffMs(failures - 1, random, limits.retry))
      await this.#wake.sleep(wait, signal)
    }
  }
}
