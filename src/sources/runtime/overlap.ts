/**
 * The proof that a connection goes on where the one before it ended (`events-ws`).
 *
 * Nothing names a Runtime or its start (R1), its counter can begin again (R39, R40), events are evicted
 * without a word (R17), and a snapshot only repeats the cursor that was asked for (R13). So what counts is
 * what comes again: the last events of the incarnation are stored, and asked for again.
 */
import type { ResetReason } from '@shoji/web-contract'

/** How many events of an incarnation are stored. */
export const STORED_EVENTS = 16

export interface SeenEvent {
  readonly cursor: string
  readonly eventId: string
  /** Of the payload as it arrived: redelivered frames are the same to the byte (R58). */
  readonly mac: string
}

export interface StoredEvent extends SeenEvent {
  /** Whether it alone tells one life of a Runtime from another: text of the model's, or an id made for it. */
  readonly distinctive: boolean
}

export interface Stored {
  /** The last events of the incarnation, oldest first, at most `STORED_EVENTS`. */
  readonly events: readonly StoredEvent[]
  /** The incarnation's snapshot, where no event ever followed it; null otherwise. */
  readonly snapshot: { readonly cursor: string; readonly mac: string } | null
  /** The worker's status as it was told last. */
  readonly status: string | null
  /** Nothing was said: agreeing about it proves nothing. */
  readonly saysNothing: boolean
}

/** Everything that came on a connection up to its fence. */
export interface Reconnection {
  /** From the oldest stored cursor (the snapshot's where there is no event), or from zero as the second try. */
  readonly asked: 'oldest' | 'zero'
  readonly snapshot: {
    readonly cursor: string
    readonly mac: string
    readonly status: string
    readonly comparison: SnapshotComparison
    /** It says nothing. */
    readonly empty: boolean
  }
  readonly frames: readonly SeenEvent[]
  /** Code of the diagnostic that ended it before its fence. */
  readonly diagnostic: string | null
}

/** What a snapshot says, held against the fold. */
export type SnapshotComparison = 'same' | 'more' | 'differs'

type NotProven = Extract<ResetReason, 'upstream_restarted' | 'upstream_gap' | 'upstream_unverifiable'>

export type OverlapVerdict =
  /** The frames from `firstNew` on follow what is stored. Repetitions among them are known by their event id. */
  | { readonly verdict: 'proven'; readonly firstNew: number }
  /** The cursor was refused, which can happen where nothing was lost (R17): ask for all that is retained. */
  | { readonly verdict: 'retry_from_zero' }
  /** Connect without a cursor, and open a new incarnation. */
  | { readonly verdict: 'not_proven'; readonly reason: NotProven }

const REFUSED = 'runtime.cursor_unknown_or_expired'
const OVERRUN = 'runtime.cursor_expired'
/** Matches that prove together what none of them does alone. */
const MATCHES_MIN = 4

const proven = (firstNew: number): OverlapVerdict => ({ verdict: 'proven', firstNew })
const not = (reason: NotProven): OverlapVerdict => ({ verdict: 'not_proven', reason })

/**
 * Judges a connection at its fence.
 *
 * Why it is not proven is told by the first of these that holds:
 *  1. `upstream_restarted`: a stored event id came with another payload; the newest event that is retained is
 *     numbered below our last; or nothing is retained and the worker says nothing, though it did.
 *  2. `upstream_gap`: unknown events came where ours should, or only newer ones; nothing came and the snapshot
 *     says more; or the backlog overran the connection.
 *  3. `upstream_unverifiable`: anything else. What came may be ours, but proves too little.
 */
export function judgeOverlap(stored: Stored, connection: Reconnection): OverlapVerdict {
  const { diagnostic, asked } = connection
  if (diagnostic !== null) return judgeDiagnostic(diagnostic, asked)
  if (stored.events.length === 0) return judgeSnapshot(stored, connection)
  const found = align(stored.events, connection)
  if (found === 'restarted') return not('upstream_restarted')
  if (found === 'gap') return not('upstream_gap')
  if (found === 'disorder') return not('upstream_unverifiable')
  if (found.matched.length === 0) return judgeUnmatched(stored, connection)
  const complete = found.matched.at(-1) === stored.events.at(-1)
  if (!complete) return not(found.end < connection.frames.length ? 'upstream_gap' : 'upstream_restarted')
  const enough = found.matched.length >= MATCHES_MIN || found.matched.some(event => event.distinctive)
  const agreed = !found.older && agreesAtRest(stored, connection)
  return enough || agreed ? proven(found.end) : not('upstream_unverifiable')
}

/** Judges a connection that a diagnostic ended before its fence, be it in the place of its snapshot. */
export function judgeDiagnostic(diagnostic: string, asked: Reconnection['asked']): OverlapVerdict {
  if (diagnostic === REFUSED && asked === 'oldest') return { verdict: 'retry_from_zero' }
  return not(diagnostic === OVERRUN ? 'upstream_gap' : 'upstream_unverifiable')
}

/** Neither of two equal snapshots can be ahead of the other, so whatever followed is new. */
function judgeSnapshot({ snapshot }: Stored, connection: Reconnection): OverlapVerdict {
  const { cursor, mac } = connection.snapshot
  const equal = snapshot !== null && snapshot.cursor === cursor && snapshot.mac === mac
  return equal ? proven(0) : not('upstream_unverifiable')
}

/**
 * Nothing of ours came again, and what came is unknown. A snapshot at rest is ahead of its backlog (R21), so
 * where it still says what we know, what came after it began after it.
 */
function judgeUnmatched(stored: Stored, connection: Reconnection): OverlapVerdict {
  const { frames, snapshot } = connection
  const last = stored.events.at(-1)!.cursor
  const newest = frames.at(-1)?.cursor
  if (newest !== undefined && !isAfter(newest, last)) return not('upstream_restarted')
  if (newest === undefined && snapshot.empty && !stored.saysNothing) return not('upstream_restarted')
  if (frames.some(({ cursor }) => !isAfter(cursor, last))) return not('upstream_gap')
  if (agreesAtRest(stored, connection)) return proven(0)
  if (newest !== undefined || snapshot.comparison === 'more') return not('upstream_gap')
  return not('upstream_unverifiable')
}

const agreesAtRest = ({ status, saysNothing }: Stored, { snapshot }: Reconnection): boolean =>
  !saysNothing &&
  !snapshot.empty &&
  snapshot.comparison === 'same' &&
  snapshot.status !== 'running' &&
  snapshot.status === status

interface Aligned {
  /** Those that came again, in order and without a hole. */
  readonly matched: readonly StoredEvent[]
  /** Index of the first frame after the last of them. */
  readonly end: number
  /** Events came before them that are older than what is stored. */
  readonly older: boolean
}

function align(
  stored: readonly StoredEvent[],
  { asked, frames }: Reconnection,
): Aligned | 'restarted' | 'gap' | 'disorder' {
  const places = new Map(stored.map((event, place) => [event.eventId, place]))
  const placeOf = ({ eventId }: SeenEvent): number => places.get(eventId) ?? -1
  if (frames.some(frame => stored[placeOf(frame)] !== undefined && stored[placeOf(frame)]!.mac !== frame.mac))
    return 'restarted'
  const seen = new Set<number>()
  let first = -1
  let last = -1
  let end = 0
  let older = false
  let unknown: SeenEvent[] = []
  for (const [index, frame] of frames.entries()) {
    const place = placeOf(frame)
    if (place < 0) {
      unknown.push(frame)
      continue
    }
    if (seen.has(place)) {
      // Delivery is at least once.
      if (unknown.length === 0) end = index + 1
      continue
    }
    if (last < 0) {
      first = place
      older = unknown.length > 0
      const mayBeOlder = asked === 'zero' && place === 0
      const oldest = stored[0]!.cursor
      if (older && !(mayBeOlder && unknown.every(({ cursor }) => isAfter(oldest, cursor)))) return 'gap'
    } else if (unknown.length > 0) return 'gap'
    else if (place !== last + 1) return 'disorder'
    seen.add(place)
    last = place
    end = index + 1
    unknown = []
  }
  return { matched: first < 0 ? [] : stored.slice(first, last + 1), end, older }
}

/** Cursors are of one length and in hexadecimal, so text order is theirs. */
const isAfter = (cursor: string, other: string): boolean =>
  cursor.length === other.length ? cursor > other : cursor.length > other.length

/** `mismatch`: if no event comes within the wait, the list is reset with `upstream_state_mismatch`. */
export type FenceAct = 'nothing' | 'wait_for_mismatch' | 'resync_due'

type Activity = 'running' | 'resting'

/**
 * What a proven resume's snapshot means, by our activity, its activity, and what it says. A snapshot is ahead
 * of the stream, so a difference may be told yet.
 */
const AT_FENCE: Readonly<
  Record<Activity, Readonly<Record<Activity, Readonly<Record<SnapshotComparison, FenceAct>>>>>
> = {
  running: {
    // Half of what is in flight is in neither.
    running: { same: 'resync_due', more: 'resync_due', differs: 'resync_due' },
    // A Runtime killed in mid-run never ends the run (R41).
    resting: { same: 'wait_for_mismatch', more: 'wait_for_mismatch', differs: 'wait_for_mismatch' },
  },
  resting: {
    // The run's first events are under way, or the Runtime lost them (R20).
    running: { same: 'wait_for_mismatch', more: 'wait_for_mismatch', differs: 'wait_for_mismatch' },
    // More at rest is what only snapshots tell, notifications and the like (R24): a resync adopts it.
    resting: { same: 'nothing', more: 'resync_due', differs: 'wait_for_mismatch' },
  },
}

export interface AtFence {
  /** Whether anything came between the overlap and the fence: the snapshot may be ahead of that. */
  readonly followed: boolean
  /** After what followed. */
  readonly ours: string | null
  readonly snapshot: string
  readonly comparison: SnapshotComparison
}

/** What is to be done about the snapshot of a proven resume, which itself is not delivered. */
export function compareAtFence({ followed, ours, snapshot, comparison }: AtFence): FenceAct {
  const [we, it] = [activity(ours), activity(snapshot)]
  if (!followed) return AT_FENCE[we][it][comparison]
  // What was said cannot be compared then, but a run that what followed did not end may have died with its
  // Runtime all the same: the last words of it stay in the backlog (R41).
  return we === 'running' && it === 'resting' ? 'wait_for_mismatch' : 'nothing'
}

const activity = (status: string | null): Activity => (status === 'running' ? 'running' : 'resting')
