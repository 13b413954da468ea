import type { DeliveryEvents } from '../delivery/delivery.ts'
import type { IngestEvents } from '../journal/ingest.ts'
import type { SourceEvents } from '../sources/source.ts'
import type { Logger } from './log.ts'

/** One function for each thing that happens, so that a log line and (later) a counter are written together. */
export interface Observability {
  readonly source: SourceEvents
  readonly ingest: IngestEvents
  readonly delivery: DeliveryEvents
}

export function createObservability(log: Logger): Observability {
  return {
    source: {
      connected: at => log.debug(at, 'worker connected'),
      disconnected: at => log.info(at, 'worker disconnected'),
      rejected: at => log.warn(at, 'frame rejected into quarantine'),
      judged: at => log.info(at, 'resume judged'),
      resynced: at => log.debug(at, 'snapshot fetched beside the connection'),
      paused: at => log.warn(at, 'socket paused: ingest is full'),
      discovered: at => log.debug(at, 'workers listed'),
      discoveryFailed: at => log.warn(at, 'listing workers failed'),
    },
    ingest: {
      repeated: ({ runtime, worker }) => log.debug({ runtime, worker }, 'repeated envelope dropped'),
      malformed: ({ runtime, worker }) => log.warn({ runtime, worker }, 'envelope without an event'),
      untold: ({ runtime, worker }, why) =>
        log.debug({ runtime, worker, why }, 'told before: not shown again'),
      inconsistent: ({ runtime, worker }, sign) =>
        log.info({ runtime, worker, sign }, 'sign of loss upstream'),
      resynced: ({ runtime, worker }, outcome, classes) =>
        log.info({ runtime, worker, outcome, classes }, 'stream compared with a fresh snapshot'),
      reset: ({ runtime, worker }, reason) => log.info({ runtime, worker, reason }, 'list replaced'),
    },
    delivery: {
      opened: ({ subject, selection }, outcome, reason) =>
        log.info({ user: subject.user, selection: selection.kind, outcome, reason }, 'stream opened'),
      closed: ({ subject }, openMs) => log.debug({ user: subject.user, openMs }, 'stream closed'),
      cut: ({ subject }, reason) => log.info({ user: subject.user, reason }, 'stream cut'),
      failed: ({ subject }, error) => log.error({ user: subject.user, err: error }, 'stream failed'),
    },
  }
}
