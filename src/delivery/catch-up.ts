import type { Frame } from '@shoji/web-contract'
import type { Entry, Seq, StreamId } from '../journal/entry.ts'
import type { Ingest } from '../journal/ingest.ts'
import { recoverOpenState } from '../journal/recovery.ts'
import { coalesce } from './coalesce.ts'
import { burstFrames, caughtUp, type Folding, fold, isBurst, snapshotFrame } from './fold.ts'
import { Group } from './group.ts'
import { durable } from './opening.ts'
import type { Viewer } from './viewer.ts'

const PAGE = { maxRows: 500, maxBytes: 256 * 1024 }

interface CatchUp {
  readonly folding: Folding
  readonly ingest: Ingest
  /** By the key of their audience. */
  readonly groups: Map<string, Group>
}

/**
 * Streams of which something after the viewer's position is deleted, by now or while it caught up: each gets
 * a burst of its own, or its next list in place of one. The snapshot is the worker as it stood where the
 * deletion ends, since what is kept after that comes by replay. True where the page has to be read again.
 */
async function resetExpired(
  { folding, ingest }: CatchUp,
  viewer: Viewer,
  expired: readonly StreamId[],
): Promise<boolean> {
  const { audience, position } = viewer
  const { journal } = folding
  const records = new Map((await journal.streams()).map(record => [record.id, record]))
  let told = false
  for (const id of expired) {
    const sight = audience.streams.get(id)
    const record = records.get(id)
    if (sight === undefined || record === undefined) continue
    const { runtime, worker, lastDeleted } = record
    if (viewer.expired.get(id)?.lastDeleted === lastDeleted) continue
    told = true
    const { position: cut, states } = ingest.cut([id])
    const whole = await durable(journal, cut)
    const page = await journal.readAfter([id], position, { maxRows: 1, maxBytes: 1 })
    const replaced = page.entries[0]?.context.replaces === true
    viewer.expired.set(id, { lastDeleted, replaced })
    if (replaced) continue
    // Where nothing is kept there is nothing to fold, and what is open is still known as of the cut.
    const known = whole && page.entries.length === 0 ? states.get(id) : undefined
    const open = known ?? (await recoverOpenState(journal, record, lastDeleted))
    await viewer.send(
      [
        { event: 'reset', data: { runtime, worker, reason: 'cursor_expired' } },
        await snapshotFrame(folding, audience, sight, lastDeleted, open),
        caughtUp(folding, audience, position),
      ],
      position,
    )
  }
  return told
}

/** Pages from where the viewer stands, at its own pace, until it is in its group at the head. */
export async function catchUp(at: CatchUp, viewer: Viewer): Promise<void> {
  const { folding } = at
  const { journal } = folding
  while (!viewer.closed) {
    await viewer.writable()
    const page = await journal.readAfter([...viewer.audience.streams.keys()], viewer.position, PAGE)
    if (page.expired !== undefined && (await resetExpired(at, viewer, page.expired))) continue
    await sendPage(folding, viewer, page.entries, page.through)
    if (!page.atHead || viewer.closed) continue
    if (viewer.owesCaughtUp && page.through >= journal.head) {
      viewer.owesCaughtUp = false
      await viewer.send([caughtUp(folding, viewer.audience, viewer.position)], viewer.position)
    }
    if (await join(at, viewer)) return
  }
}

/** Frames of a page, coalesced; a burst in it stands alone, whole. */
async function sendPage(
  folding: Folding,
  viewer: Viewer,
  entries: readonly Entry[],
  through: Seq,
): Promise<void> {
  const { audience } = viewer
  let frames: Frame[] = []
  let last = viewer.position
  for (const entry of entries) {
    if (viewer.closed) return
    const frame = fold(folding, audience, entry)
    if (isBurst(frame)) {
      await viewer.send(coalesce(frames), last)
      frames = []
      const expired = viewer.expired.get(entry.stream)
      viewer.expired.delete(entry.stream)
      const burst = expired?.replaced
        ? { ...frame, opening: 'reset' as const, reason: 'cursor_expired' as const }
        : frame
      const built = await burstFrames(folding, audience, burst, viewer.views)
      viewer.views = built.views
      await viewer.send(built.frames, entry.seq)
    } else if (frame !== null) frames.push(frame)
    last = entry.seq
  }
  await viewer.send(coalesce(frames), through)
}

/** Into the group of its audience, if the viewer stands exactly where the group stands. */
async function join({ folding, groups }: CatchUp, viewer: Viewer): Promise<boolean> {
  if (viewer.closed || viewer.blocked) return false
  const { audience } = viewer
  let group = groups.get(audience.key)
  if (group !== undefined && group.members.size === 0 && group.settled === null) {
    groups.delete(audience.key)
    group = undefined
  }
  if (group === undefined) {
    if (viewer.position !== folding.journal.head) return false
    group = new Group(folding, audience, viewer.position, viewer.views)
    groups.set(audience.key, group)
  }
  if (group.settled !== null) {
    await group.settled
    return false
  }
  if (group.position !== viewer.position) return false
  if (group.views !== viewer.views) {
    // Time passes meanwhile: the group may move on without the viewer, or end. So all is looked at again.
    await tellViews(folding, viewer, group)
    return false
  }
  group.members.add(viewer)
  viewer.group = group
  viewer.state = 'live'
  return true
}

/** Brings viewer and group to the same word on what they may see: each is told what it has not been told. */
async function tellViews(folding: Folding, viewer: Viewer, group: Group): Promise<void> {
  const { audience } = viewer
  const views = folding.views(audience)
  const told = JSON.stringify(views)
  const frame: Frame = { event: 'view', data: { policy: audience.policy.hash, views } }
  if (group.views !== told) group.tellViews(told, frame)
  if (viewer.views === told) return
  viewer.views = told
  await viewer.send([frame], viewer.position)
}
