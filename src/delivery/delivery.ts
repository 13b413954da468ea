import type { ServerResponse } from 'node:http'
import type { ByeReason, Frame, ResetReason } from '@shoji/web-contract'
import { asSeq, type Entry, type Seq, type StreamId } from '../journal/entry.ts'
import { type Ingest, recoverOpenState } from '../journal/ingest.ts'
import type { Commit } from '../journal/journal.ts'
import type { StatusChange } from '../sources/source.ts'
import type { Upstreams } from '../sources/upstreams.ts'
import { coalesce } from './coalesce.ts'
import { burstFrames, caughtUp, type Folding, fold, isBurst, snapshotFrame } from './fold.ts'
import { encodeFrame } from './frames.ts'
import { Group, type IndexedCommit } from './group.ts'
import { type Audience, admit, selects } from './selection.ts'
import { Viewer } from './viewer.ts'

export interface DeliveryLimits {
  readonly streams: number
  readonly streamsPerUser: number
  readonly bufferedBytes: number
  readonly heartbeatMs: number
  /** Mean lifetime of a connection; each one's own is jittered by a fifth either way. */
  readonly rotateMs: number
  /** Unsent bytes that do not move for this long are a cut. */
  readonly stalledMs: number
}

export interface DeliveryEvents {
  readonly opened: (audience: Audience, outcome: 'fresh' | 'resumed' | 'reset', reason?: ResetReason) => void
  readonly closed: (audience: Audience, openMs: number) => void
  readonly cut: (audience: Audience, reason: 'stalled') => void
  readonly failed: (audience: Audience, error: unknown) => void
}

export interface Delivery {
  /** Serves one viewer on a response that nothing was written to yet. Returns at once. */
  open(res: ServerResponse, audience: Audience, cursor: string | null): void
  readonly viewers: { readonly live: number; readonly catchingUp: number; readonly starting: number }
  /** Ends every stream with `bye`; retries are spread over `spreadMs`. */
  drain(reason: ByeReason, spreadMs: number): void
  /** Stops timers and listeners. */
  stop(): void
}

interface Deps {
  readonly folding: Folding
  readonly ingest: Ingest
  readonly upstreams: Upstreams
  readonly limits: DeliveryLimits
  readonly now: () => number
  readonly random: () => number
  readonly events?: DeliveryEvents
}

const PAGE = { maxRows: 500, maxBytes: 256 * 1024 }
const SWEEP_MS = 1_000
const STALL_SWEEP_MS = 5_000
const RETRY_READ_MS = 1_000

/** Bytes to browsers: groups at the head, everyone else by pages at their own pace. */
export function createDelivery(deps: Deps): Delivery {
  const { folding, ingest, limits, now, random } = deps
  const { journal, cursors } = folding
  const groups = new Map<string, Group>()
  const viewers = new Set<Viewer>()
  let draining = false

  const stopCommits = journal.onCommit(commit => {
    const indexed = indexCommit(commit)
    for (const [key, group] of groups) {
      if (group.members.size === 0) groups.delete(key)
      else group.take(indexed)
    }
  })

  const stopStreams = ingest.onStream(record => {
    for (const audience of audiences()) admit(audience, record)
  })

  function* audiences(): Generator<Audience> {
    for (const group of groups.values()) yield group.audience
    for (const viewer of viewers) yield viewer.audience
  }

  const stopStatus = deps.upstreams.onChange(change => {
    for (const viewer of viewers) if (concerns(viewer.audience, change)) tellStatus(viewer, change)
  })

  const stopHealth = journal.onHealth(health => {
    const since = now()
    for (const viewer of viewers) {
      tellHealth(viewer)
      if (health.state !== 'ok') continue
      for (const runtime of runtimesOf(viewer.audience))
        tellStatus(viewer, deps.upstreams.get(runtime) ?? { runtime, upstream: 'live', since })
    }
  })

  function tellHealth(viewer: Viewer): void {
    const { health } = journal
    if (health.state === 'ok') return
    const { code, since } = health
    for (const runtime of runtimesOf(viewer.audience))
      tellStatus(viewer, { runtime, upstream: 'journal_unavailable', code, since })
  }

  const timers = [
    setInterval(beat, limits.heartbeatMs),
    setInterval(rotate, SWEEP_MS),
    setInterval(cutStalled, STALL_SWEEP_MS),
  ]
  for (const timer of timers) timer.unref()

  function beat(): void {
    const made = new Map<Group, string>()
    for (const viewer of viewers) {
      const { group } = viewer
      viewer.beat(() => {
        if (group === null || viewer.position !== group.position)
          return beatText(viewer.audience, viewer.position)
        let text = made.get(group)
        if (text === undefined) {
          text = beatText(group.audience, group.position)
          made.set(group, text)
        }
        return text
      })
    }
  }

  const beatText = (audience: Audience, position: Seq): string =>
    encodeFrame('beat', {}, cursors.encode(position, audience.tag))

  function rotate(): void {
    const at = now()
    for (const viewer of viewers)
      if (at >= viewer.closeAt) viewer.bye('rotated', Math.round(random() * 1_000))
  }

  function cutStalled(): void {
    const at = now()
    for (const viewer of viewers) {
      if (!viewer.stalled(at, limits.stalledMs)) continue
      deps.events?.cut(viewer.audience, 'stalled')
      viewer.cut()
    }
  }

  function tellStatus(viewer: Viewer, change: StatusChange): void {
    const { runtime, worker, upstream, since, code } = change
    const data = {
      runtime,
      ...(worker !== undefined && { worker }),
      upstream,
      since,
      ...(code !== undefined && { code }),
    }
    viewer.aside(() => encodeFrame('status', data))
  }

  async function serve(viewer: Viewer, cursor: string | null): Promise<void> {
    const { audience } = viewer
    for (const record of ingest.streams()) admit(audience, record)
    const decoded = cursor === null ? null : cursors.decode(cursor, audience.tag)
    viewer.burst(true)
    if (decoded?.ok === true) {
      deps.events?.opened(audience, 'resumed')
      viewer.owesCaughtUp = true
      await viewer.send([hello(viewer, 'resumed')], decoded.seq)
    } else {
      const outcome = decoded === null ? 'fresh' : 'reset'
      deps.events?.opened(audience, outcome, decoded?.reason)
      await startFresh(viewer, hello(viewer, outcome, decoded?.reason))
    }
    viewer.burst(false)
    for (const change of deps.upstreams.all())
      if (change.upstream !== 'live' && concerns(audience, change)) tellStatus(viewer, change)
    tellHealth(viewer)
    viewer.state = 'catching_up'
    await catchUp(viewer)
  }

  function hello(viewer: Viewer, outcome: 'fresh' | 'resumed' | 'reset', reason?: ResetReason): Frame {
    const views = folding.views(viewer.audience)
    viewer.views = JSON.stringify(views)
    return {
      event: 'hello',
      data: {
        protocol: 1,
        outcome,
        ...(reason !== undefined && { reason }),
        heartbeat_ms: limits.heartbeatMs,
        policy: viewer.audience.policy.hash,
        views,
      },
    }
  }

  /** One consistent cut through all streams of the audience; nothing of it goes out before it is durable. */
  async function startFresh(viewer: Viewer, first: Frame): Promise<void> {
    const { audience } = viewer
    const cut = ingest.cut([...audience.streams.keys()])
    await viewer.send([first], viewer.position)
    const whole = await durable(cut.position)
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
  async function durable(seq: Seq): Promise<boolean> {
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

  /**
   * Streams of which something after the viewer's position is deleted, by now or while it caught up: each gets
   * a burst of its own, or its next list in place of one. The snapshot is the worker as it stood where the
   * deletion ends, since what is kept after that comes by replay. True where the page has to be read again.
   */
  async function resetExpired(viewer: Viewer, expired: readonly StreamId[]): Promise<boolean> {
    const { audience, position } = viewer
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
      const whole = await durable(cut)
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

  async function catchUp(viewer: Viewer): Promise<void> {
    while (!viewer.closed) {
      await viewer.writable()
      const page = await journal.readAfter([...viewer.audience.streams.keys()], viewer.position, PAGE)
      if (page.expired !== undefined && (await resetExpired(viewer, page.expired))) continue
      await sendPage(viewer, page.entries, page.through)
      if (!page.atHead || viewer.closed) continue
      if (viewer.owesCaughtUp && page.through >= journal.head) {
        viewer.owesCaughtUp = false
        await viewer.send([caughtUp(folding, viewer.audience, viewer.position)], viewer.position)
      }
      if (await join(viewer)) return
    }
  }

  /** Frames of a page, coalesced; a burst in it stands alone, whole. */
  async function sendPage(viewer: Viewer, entries: readonly Entry[], through: Seq): Promise<void> {
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
  async function join(viewer: Viewer): Promise<boolean> {
    if (viewer.closed || viewer.blocked) return false
    const { audience } = viewer
    let group = groups.get(audience.key)
    if (group !== undefined && group.members.size === 0 && group.settled === null) {
      groups.delete(audience.key)
      group = undefined
    }
    if (group === undefined) {
      if (viewer.position !== journal.head) return false
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
      await tellViews(viewer, group)
      return false
    }
    group.members.add(viewer)
    viewer.group = group
    viewer.state = 'live'
    return true
  }

  /** Brings viewer and group to the same word on what they may see: each is told what it has not been told. */
  async function tellViews(viewer: Viewer, group: Group): Promise<void> {
    const { audience } = viewer
    const views = folding.views(audience)
    const told = JSON.stringify(views)
    const frame: Frame = { event: 'view', data: { policy: audience.policy.hash, views } }
    if (group.views !== told) group.tellViews(told, frame)
    if (viewer.views === told) return
    viewer.views = told
    await viewer.send([frame], viewer.position)
  }

  /** Keeps a viewer's reading alive: a journal that can't be read now is read again, and the viewer told. */
  function run(viewer: Viewer, work: () => Promise<void>): void {
    work().catch(error => {
      if (viewer.closed) return
      deps.events?.failed(viewer.audience, error)
      if (viewer.state === 'starting') {
        viewer.bye('overloaded', RETRY_READ_MS + Math.round(random() * RETRY_READ_MS))
        return
      }
      const timer = setTimeout(() => run(viewer, () => catchUp(viewer)), RETRY_READ_MS)
      timer.unref()
    })
  }

  function makeRoom(user: string): void {
    const own = [...viewers].filter(v => !v.closed && v.audience.subject.user === user)
    if (own.length < limits.streamsPerUser) return
    const oldest = own.reduce((a, b) => (b.since < a.since ? b : a))
    oldest.bye('replaced', 5_000 + Math.round(random() * 5_000))
  }

  return {
    open(res, audience, cursor) {
      res.writeHead(200, {
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-cache, no-transform',
        'x-accel-buffering': 'no',
        'x-content-type-options': 'nosniff',
      })
      res.socket?.setNoDelay(true)
      const retryMs = 500 + Math.round(random() * 1_000)
      res.write(`retry: ${retryMs}\n\n`)
      const since = now()
      const viewer: Viewer = new Viewer(res, {
        audience,
        position: 0 as Seq,
        since,
        closeAt: since + limits.rotateMs * (0.8 + 0.4 * random()),
        limits: { bufferedBytes: limits.bufferedBytes },
        onClose() {
          if (!viewers.delete(viewer)) return
          deps.events?.closed(audience, now() - since)
        },
        onBehind: behind => run(behind, () => catchUp(behind)),
      })
      if (draining || viewers.size >= limits.streams) {
        viewer.bye(draining ? 'shutdown' : 'overloaded', 1_000 + Math.round(random() * 9_000))
        return
      }
      makeRoom(audience.subject.user)
      viewers.add(viewer)
      run(viewer, () => serve(viewer, cursor))
    },
    get viewers() {
      const count = { live: 0, catchingUp: 0, starting: 0 }
      for (const { state } of viewers)
        count[state === 'catching_up' ? 'catchingUp' : state === 'live' ? 'live' : 'starting'] += 1
      return count
    },
    drain(reason, spreadMs) {
      draining = true
      for (const viewer of [...viewers]) viewer.bye(reason, Math.round(random() * spreadMs))
    },
    stop() {
      for (const timer of timers) clearInterval(timer)
      stopCommits()
      stopStreams()
      stopStatus()
      stopHealth()
    },
  }
}

function indexCommit(commit: Commit): IndexedCommit {
  const byStream = new Map<StreamId, Entry[]>()
  for (const entry of commit.entries) {
    const list = byStream.get(entry.stream)
    if (list === undefined) byStream.set(entry.stream, [entry])
    else list.push(entry)
  }
  return { after: commit.after, head: commit.head, byStream }
}

/** A Runtime's own state concerns everyone who sees it or a worker of it; a worker's those who see that one. */
function concerns(audience: Audience, change: StatusChange): boolean {
  if (change.worker === undefined) return runtimesOf(audience).has(change.runtime)
  const at = { runtime: change.runtime, worker: change.worker }
  if (!selects(audience.selection, at)) return false
  for (const { place } of audience.streams.values())
    if (place.runtime === at.runtime && place.worker === at.worker) return true
  return audience.policy.view(audience.subject, { source: 'runtime', profile: null, ...at }).observe
}

/** Those of which the audience sees a worker, and the one it asked for by name: that much it knows already. */
const runtimesOf = ({ selection, streams }: Audience): Set<string> =>
  new Set([
    ...(selection.kind === 'runtime' ? [selection.runtime] : []),
    ...[...streams.values()].map(s => s.record.runtime),
  ])
