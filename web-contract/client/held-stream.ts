/** One stream, its state, and the tabs that are shown it. */
import type { ClientState } from '../state.ts'
import { type FrameName, PROTOCOL_VERSION } from '../vocabulary.ts'
import { connectClient } from './client.ts'
import { type FromHub, type Interrupted, type StreamWish, unitsOf } from './shared-messages.ts'
import type { SseEvent } from './sse.ts'
import { BEGINS_BURST } from './store.ts'
import type { ConnectionState, ShojiClient } from './types.ts'

/** What a tab that was away for a moment is given again. */
const RECENT_MAX = { events: 1_024, units: 1024 * 1024 } as const

export interface Member {
  readonly say: (message: FromHub) => void
  readonly leave: () => void
  readonly send: (event: SseEvent) => void
  /** False where the member takes nothing any more. */
  readonly ask: () => boolean
}

export interface HeldStream {
  readonly idle: boolean
  join(member: Member, position: string | null): void
  leave(member: Member): void
  close(): void
}

/** `over` is called where the server refused it. */
export function holdStream(wish: StreamWish, over: () => void): HeldStream {
  const members = new Set<Member>()
  let burst: SseEvent[] = []
  let recent: SseEvent[] = []
  let recentUnits = 0
  let timer: ReturnType<typeof setTimeout> | undefined

  const { url, selection, token, history, maxItems } = wish
  const client = connectClient(
    {
      url,
      selection,
      ...(token !== undefined && { token }),
      ...(history !== undefined && { history }),
      ...(maxItems !== undefined && { maxItems }),
      onState() {},
      onConnection,
    },
    onEvent,
  )

  function onEvent(event: SseEvent): void {
    if (BEGINS_BURST.has(event.event as FrameName)) forgetRecent()
    if (burst.length > 0 || BEGINS_BURST.has(event.event as FrameName)) burst.push(event)
    else remember(event)
    const whole = burst.length > 0 && event.id !== undefined
    if (whole) burst = []
    for (const member of [...members]) member.send(event)
    // A `hello` may have named another beat.
    if (whole && members.size > 0) beat()
  }

  function remember(event: SseEvent): void {
    recent.push(event)
    recentUnits += unitsOf(event)
    while (recent.length > RECENT_MAX.events || recentUnits > RECENT_MAX.units)
      recentUnits -= unitsOf(recent.shift() as SseEvent)
  }

  function forgetRecent(): void {
    recent = []
    recentUnits = 0
  }

  function onConnection(connection: ConnectionState): void {
    if (connection.state === 'signed_out' || connection.state === 'denied') {
      const status = connection.state === 'signed_out' ? 401 : 403
      for (const member of [...members])
        member.say({ say: 'refused', status, code: connection.code ?? 'unreadable' })
      members.clear()
      over()
    } else if (isInterrupted(connection)) {
      burst = []
      for (const member of members) member.say({ say: 'interrupted', connection })
    }
  }

  function beat(): void {
    clearTimeout(timer)
    timer = setTimeout(() => {
      for (const member of [...members]) if (!member.ask()) member.leave()
      if (members.size > 0) beat()
    }, client.state.heartbeatMs)
  }

  return {
    get idle() {
      return members.size === 0
    },
    join(member, position) {
      for (const event of greetingOf(client, recent, position)) member.send(event)
      for (const event of burst) member.send(event)
      const { connection } = client
      const interrupted = isInterrupted(connection) && !('dropped' in connection)
      if (interrupted) member.say({ say: 'interrupted', connection })
      members.add(member)
      // Somebody looks now: the wait for the next attempt is over.
      if (interrupted) client.reconnect()
      client.resume()
      if (members.size === 1) beat()
    },
    leave(member) {
      if (!members.delete(member) || members.size > 0) return
      clearTimeout(timer)
      burst = []
      client.drop()
    },
    close() {
      clearTimeout(timer)
      client.close()
    },
  }
}

const isInterrupted = (connection: ConnectionState): connection is Interrupted =>
  connection.state === 'stale' || connection.state === 'offline'

/** What brings a tab from its position to the newest whole state, as a server would have said it. */
function greetingOf(
  { state, connection }: ShojiClient,
  recent: readonly SseEvent[],
  position: string | null,
): SseEvent[] {
  if (state.position === null) return []
  const at = position === null ? -1 : recent.findLastIndex(event => event.id === position)
  const resumed = at >= 0 || position === state.position
  const events: [FrameName, unknown][] = [
    [
      'hello',
      {
        protocol: PROTOCOL_VERSION,
        outcome: resumed ? 'resumed' : 'fresh',
        heartbeat_ms: state.heartbeatMs,
        policy: state.policy,
        views: state.views,
      },
    ],
    ...(resumed ? [] : snapshotsOf(state)),
    ...statusesOf(state),
  ]
  const said = ([event, data]: [FrameName, unknown]): SseEvent => ({ event, data: JSON.stringify(data) })
  const caughtUp = said(['caught_up', {}])
  const place = { ...said(['beat', {}]), id: state.position }
  const live = connection.state === 'live' && state.live
  return [
    ...events.map(said),
    ...(at >= 0 ? recent.slice(at + 1) : []),
    // A frame whose id the tab has already says no more than where it is.
    ...(!live ? [place] : resumed ? [place, caughtUp] : [{ ...caughtUp, id: state.position }]),
  ]
}

const snapshotsOf = ({ workers }: ClientState): [FrameName, unknown][] =>
  Object.values(workers).map(({ runtime, worker, state, earlier }) => [
    'snapshot',
    { runtime, worker, state, earlier },
  ])

const statusesOf = ({ upstreams, workers, commands }: ClientState): [FrameName, unknown][] => [
  ...Object.entries(upstreams).map(([runtime, told]): [FrameName, unknown] => [
    'status',
    { runtime, ...told },
  ]),
  ...Object.values(workers).flatMap(({ runtime, worker, upstream }): [FrameName, unknown][] =>
    upstream === undefined ? [] : [['status', { runtime, worker, ...upstream }]],
  ),
  ...Object.entries(commands).map(([id, receipt]): [FrameName, unknown] => ['command', { id, ...receipt }]),
]
