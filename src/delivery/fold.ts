import type { Frame, ResetReason, WorkerView } from '@shoji/web-contract'
import type { Cursors } from '../journal/cursor.ts'
import type { Entry, Key, Seq } from '../journal/entry.ts'
import type { OpenState } from '../journal/open-state.ts'
import { project } from '../projection/project.ts'
import { boundEnvelope } from './frames.ts'
import type { Reading } from './history.ts'
import { type Audience, pageTag, type Sight } from './selection.ts'
import { buildSnapshot } from './snapshot.ts'

export interface Folding extends Reading {
  readonly cursors: Cursors
  /** What `hello` and `view` say of this audience now. */
  readonly views: (audience: Audience) => WorkerView[]
  readonly onProjectionFailed?: (entry: Entry, error: unknown) => void
}

/** An entry that replaces a worker's list: it arrives as several frames of which only the last has an id. */
export interface Burst {
  readonly burst: true
  readonly sight: Sight
  readonly entry: Entry
  readonly opening: 'view' | 'reset'
  readonly reason: ResetReason
}

export const isBurst = (value: Frame | Burst | null): value is Burst => value !== null && 'burst' in value

/** One entry for one audience: a frame, a burst still to be built, or nothing. Pure. */
export function fold(folding: Folding, audience: Audience, entry: Entry): Frame | Burst | null {
  const sight = audience.streams.get(entry.stream)
  if (sight === undefined) return null
  const projected = project(sight.view, folding.ids, sight.place, entry, error =>
    folding.onProjectionFailed?.(entry, error),
  )
  if (projected === null) return null
  if (projected.frame === 'burst') {
    const { opening, reason } = projected
    return { burst: true, sight, entry, opening, reason }
  }
  const id = folding.cursors.encode(entry.seq, audience.tag)
  if (projected.frame === 'envelope') return { event: 'envelope', id, data: boundEnvelope(projected.data) }
  const { runtime, worker } = sight.place
  return { event: 'gap', id, data: { runtime, worker, reason: projected.reason } }
}

/** The frames of a burst: what opens it, the worker as it stands right after the entry, and `caught_up`. */
export async function burstFrames(
  folding: Folding,
  audience: Audience,
  burst: Burst,
  sentViews: string,
): Promise<{ frames: Frame[]; views: string }> {
  const { entry, sight } = burst
  const { runtime, worker } = sight.place
  const open = { ...folding.lists.of(entry).state, replacing: entry.seq }
  const snapshot = await snapshotFrame(folding, audience, sight, entry.seq, open)
  const frames: Frame[] = []
  const views = folding.views(audience)
  const told = JSON.stringify(views)
  if (told !== sentViews) frames.push({ event: 'view', data: { policy: audience.policy.hash, views } })
  if (burst.opening === 'reset')
    frames.push({ event: 'reset', data: { runtime, worker, reason: burst.reason } })
  frames.push(snapshot, caughtUp(folding, audience, entry.seq))
  return { frames, views: told }
}

export async function snapshotFrame(
  folding: Folding,
  audience: Audience,
  sight: Sight,
  through: Seq,
  open: OpenState,
): Promise<Frame> {
  const { runtime, worker } = sight.place
  const built = await buildSnapshot(folding, sight, { through, open, maxItems: audience.history })
  const earlier = built.earlier && pageCursor(folding, audience, sight, built.earlier)
  return { event: 'snapshot', data: { runtime, worker, state: built.state, earlier } }
}

export function pageCursor(
  { cursors, journal }: Folding,
  { policy, subject }: Pick<Audience, 'policy' | 'subject'>,
  { record }: Sight,
  key: Key,
): string {
  return cursors.encodePage(key, pageTag(journal.keys.id, policy, subject, record.id))
}

export const caughtUp = ({ cursors }: Folding, audience: Audience, position: Seq): Frame => ({
  event: 'caught_up',
  id: cursors.encode(position, audience.tag),
  data: {},
})
