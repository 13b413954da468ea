import type { ServerResponse } from 'node:http'
import type { ByeReason, ResetReason } from '@shoji/web-contract'
import { asSeq, type Seq } from '../journal/entry.ts'
import type { Ingest } from '../journal/ingest.ts'
import type { StatusChange } from '../sources/source.ts'
import type { Upstreams } from '../sources/upstreams.ts'
import { catchUp } from './catch-up.ts'
import type { Folding } from './fold.ts'
import { encodeFrame } from './frames.ts'
import { type Group, indexCommit } from './group.ts'
import { hello, startFresh } from './opening.ts'
import { type Audience, admit } from './selection.ts'
import { concerns, runtimesOf, statusText } from './status.ts'
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

const SWEEP_MS = 1_000
const STALL_SWEEP_MS = 5_000
const RETRY_READ_MS = 1_000

/** Bytes to browsers: groups at the head, everyone else by pages at their own pace. */
export function createDelivery(deps: Deps): Delivery {
  const { folding, ingest, limits, now, random } = deps
  const { journal, cursors } = folding
  const groups = new Map<string, Group>()
  const viewers = new Set<Viewer>()
  const opening = { folding, ingest, heartbeatMs: limits.heartbeatMs }
  const catching = { folding, ingest, groups }
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

  const tellStatus = (viewer: Viewer, change: StatusChange): void => viewer.aside(() => statusText(change))

  async function serve(viewer: Viewer, cursor: string | null): Promise<void> {
    const { audience } = viewer
    for (const record of ingest.streams()) admit(audience, record)
    const decoded = cursor === null ? null : cursors.decode(cursor, audience.tag)
    viewer.burst(true)
    if (decoded?.ok === true) {
      deps.events?.opened(audience, 'resumed')
      viewer.owesCaughtUp = true
      await viewer.send([hello(opening, viewer, 'resumed')], decoded.seq)
    } else {
      const outcome = decoded === null ? 'fresh' : 'reset'
      deps.events?.opened(audience, outcome, decoded?.reason)
      await startFresh(opening, viewer, hello(opening, viewer, outcome, decoded?.reason))
    }
    viewer.burst(false)
    for (const change of deps.upstreams.all())
      if (change.upstream !== 'live' && concerns(audience, change)) tellStatus(viewer, change)
    tellHealth(viewer)
    viewer.state = 'catching_up'
    await catchUp(catching, viewer)
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
      const timer = setTimeout(() => run(viewer, () => catchUp(catching, viewer)), RETRY_READ_MS)
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
        position: asSeq(0),
        since,
        closeAt: since + limits.rotateMs * (0.8 + 0.4 * random()),
        limits: { bufferedBytes: limits.bufferedBytes },
        onClose() {
          if (!viewers.delete(viewer)) return
          deps.events?.closed(audience, now() - since)
        },
        onBehind: behind => run(behind, () => catchUp(catching, behind)),
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
