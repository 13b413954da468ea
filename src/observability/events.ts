import type { DeliveryEvents } from '../delivery/delivery.ts'
import type { IngestEvents } from '../journal/ingest.ts'
import type { SourceEvents } from '../sources/source.ts'
import type { Logger } from './log.ts'
import type { Metrics } from './metrics.ts'

/** One function for each thing that happens, which writes its log line and its counter together. */
export interface Observability {
  readonly source: SourceEvents
  readonly ingest: IngestEvents
  readonly delivery: DeliveryEvents
  readonly journal: {
    readonly failed: (at: { code: string; cause: unknown; attempt: number }) => void
    readonly listenerFailed: (error: unknown) => void
  }
}

export function createObservability(log: Logger, metrics: Metrics): Observability {
  return {
    journal: {
      failed: ({ code, cause, attempt }) => {
        metrics.commitsFailed.inc({ code })
        // The first tells that it began; those that follow, that it goes on.
        if (attempt === 1 || attempt % 60 === 0)
          log.error({ code, attempt, err: cause }, 'the journal cannot be written')
      },
      listenerFailed: error => log.error({ err: error }, 'a listener of commits failed'),
    },
    source: {
      connected: at => log.debug(at, 'worker connected'),
      disconnected: at => {
        metrics.disconnects.inc({ runtime: at.runtime, code: at.code })
        log.info(at, 'worker disconnected')
      },
      rejected: at => {
        metrics.rejected.inc({ runtime: at.runtime, cause: at.cause })
        log.warn(at, 'frame rejected into quarantine')
      },
      judged: at => {
        metrics.verdicts.inc({ runtime: at.runtime, verdict: at.verdict })
        log.info(at, 'resume judged')
      },
      resynced: at => {
        metrics.resyncs.inc({ runtime: at.runtime, outcome: at.outcome })
        log.debug(at, 'snapshot fetched beside the connection')
      },
      paused: at => {
        metrics.paused.inc({ runtime: at.runtime })
        log.warn(at, 'socket paused: ingest is full')
      },
      discovered: at => {
        metrics.beyondLimit.set({ runtime: at.runtime }, at.beyondLimit)
        log.debug(at, 'workers listed')
      },
      discoveryFailed: at => {
        metrics.discoveryFailed.inc({ runtime: at.runtime, code: at.code })
        log.warn(at, 'listing workers failed')
      },
    },
    ingest: {
      repeated: ({ runtime, worker }) => {
        metrics.repeated.inc({ runtime })
        log.debug({ runtime, worker }, 'repeated envelope dropped')
      },
      malformed: ({ runtime, worker }) => {
        metrics.malformed.inc({ runtime })
        log.warn({ runtime, worker }, 'envelope without an event')
      },
      untold: ({ runtime, worker }, why) => {
        metrics.untold.inc({ runtime, why })
        log.debug({ runtime, worker, why }, 'told before: not shown again')
      },
      inconsistent: ({ runtime, worker }, sign) => {
        metrics.inconsistent.inc({ runtime, sign })
        log.info({ runtime, worker, sign }, 'sign of loss upstream')
      },
      resynced: ({ runtime, worker }, outcome, classes) =>
        log.info({ runtime, worker, outcome, classes }, 'stream compared with a fresh snapshot'),
      reset: ({ runtime, worker }, reason) => {
        metrics.resets.inc({ runtime, reason })
        log.info({ runtime, worker, reason }, 'list replaced')
      },
    },
    delivery: {
      opened: ({ subject, selection }, outcome, reason) => {
        metrics.opened.inc({ outcome, reason: reason ?? '' })
        log.info({ user: subject.user, selection: selection.kind, outcome, reason }, 'stream opened')
      },
      closed: ({ subject }, openMs) => log.debug({ user: subject.user, openMs }, 'stream closed'),
      cut: ({ subject }, reason) => {
        metrics.cut.inc({ reason })
        log.info({ user: subject.user, reason }, 'stream cut')
      },
      failed: ({ subject }, error) => {
        metrics.failed.inc()
        log.error({ user: subject.user, err: error }, 'stream failed')
      },
    },
  }
}
