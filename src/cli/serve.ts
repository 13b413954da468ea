import type { Config } from '../config/config.ts'
import { hiddenValues } from '../config/config.ts'
import { createLogger } from '../observability/log.ts'
import { startService } from '../service.ts'
import { type CliIo, EXIT } from './run.ts'

/** Serves until the signal aborts, then drains. Resolves with the exit code. */
export async function serve(config: Config, io: CliIo): Promise<number> {
  // Asked for first, so that a signal during the start is an orderly end as well.
  const { signal } = io
  const log = createLogger({ level: config.log.level, hidden: hiddenValues(config) })
  const service = await startService(config, log)
  io.stdout.write(`shoji: serving on ${service.url}, policy ${service.policyHash}\n`)
  await aborted(signal)
  await service.stop()
  return EXIT.done
}

export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
