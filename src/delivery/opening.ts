import type { Frame, ResetReason } from '@shoji/web-contract'
import { asSeq, type Seq } from '../journal/entry.ts'
import type { Ingest } from '../journal/ingest.ts'
import type { Journal } from '../journal/journal.ts'
import { recoverOpenState } from '../journal/recovery.ts'
import { caughtUp, type Folding, snapshotFrame } from './fold.ts'
import type { Viewer } from './viewer.ts'

/** The first frames of a stream. */
export interface Opening {
  readonly folding: Folding
  readonly ingest: Ingest
  readonly heartbeatMs: number
}

export function hello(
  { folding, heartbeatMs }: Opening,
  viewer: Viewer,
  outcome: 'fresh' | 'resumed' | 'reset',
  reason?: ResetReason,
): Frame {
  const views = folding.views(viewer.audience)
  viewer.views = JSON.stringify(views)
  return {
    event: 'hello',
    data: {
      protocol: 1,
      outcome,
      ...(reason !== undefined && { reason }),
      heartbeat_ms: heartbeatMs,
      policy: viewer.audience.policy.hash,
      views,
    },
  }
}

/** One consistent cut through all streams of the audience; nothing of it goes out before it is durable. */
export async function startFresh({ folding, ingest }: Opening, viewer: Viewer, first: Frame): Promise<void> {
  const { audience } = viewer
  const { journal } = folding
  const cut = ingest.cut([...audience.streams.keys()])
  await viewer.send([first], viewer.position)
  const whole = await durable(journal, cut.position)
  // The newest entries can turn out to be repetitions: they are not stored, and no cursor may name them.
  const position = asSeq(Math.min(cut.position, journal.head))
  for (const sight of [...audience.streams.values()]) {
    const known = whole ? cut.states.get(sight.record.id) : undefined
    const open = known ?? (await recoverOpenState(journal, sight.record, position))
    if (viewer.closed || open.replacing === 0) continue
    await viewer.send([await snapshotFrame(folding, audience, sight, position, open)], viewer.position)
  }
  await viewer.send([caughtUp(folding, audience, position)], position)
}

/** Waits until it is so; false where the journal can't be written, and nobody knows for how long. */
export async function durable(journal: Journal, seq: Seq): Promise<boolean> {
  if (seq <= journal.head) return true
  const givingUp = new AbortController()
  const { signal } = givingUp
  const stop = journal.onHealth(({ state }) => {
    if (state === 'unavailable') givingUp.abort()
  })
  if (journal.health.state === 'unavailable') givingUp.abort()
  try {
    await journal.durable(seq, signal)
    return true
  } catch (error) {
    if (signal.aborted) return false
    throw error
  } finally {
    stop()
  }
}
