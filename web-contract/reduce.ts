/**
 * Frames in, state out. Pure: a call returns a new state and leaves the old one as it was, sharing what
 * did not change. Server and browser use the same code, so a snapshot is by construction what the frames
 * before it would have made.
 */
import type { Frame } from './frames.ts'
import { emptyWorkerState, reduceWorker } from './reduce-worker.ts'
import type { ClientState, Upstream, WorkerEntry, WorkerView } from './state.ts'
import { HEARTBEAT_MS } from './vocabulary.ts'

const COMMANDS_KEPT = 100

export const emptyClientState = (): ClientState => ({
  position: null,
  outcome: null,
  policy: null,
  heartbeatMs: HEARTBEAT_MS,
  views: [],
  workers: {},
  upstreams: {},
  commands: {},
  live: false,
})

export const workerKey = (runtime: string, worker: string): string => `${runtime}/${worker}`

/**
 * The whole stream: every frame of the contract. The same frame applied twice in a row changes nothing
 * more. A frame name that is not known moves the position and nothing else, so that an older client
 * outlives a newer server.
 */
export function reduce(state: ClientState, frame: Frame): ClientState {
  if (frame.id !== undefined && frame.id === state.position) return state
  const next = reduceFrame(state, frame)
  return frame.id === undefined ? next : { ...next, position: frame.id }
}

function reduceFrame(state: ClientState, frame: Frame): ClientState {
  switch (frame.event) {
    case 'hello': {
      const { outcome, reason, policy, views, heartbeat_ms } = frame.data
      const { bye: _, reason: __, ...rest } = state
      return {
        ...rest,
        outcome,
        ...(reason !== undefined && { reason }),
        policy,
        views,
        heartbeatMs: heartbeat_ms,
        live: false,
        workers: outcome === 'resumed' ? visibleWorkers(state, views) : {},
        upstreams: {},
      }
    }
    case 'view': {
      const { policy, views } = frame.data
      return { ...state, policy, views, workers: visibleWorkers(state, views) }
    }
    case 'snapshot':
      return withWorker(state, frame.data, old => {
        const { upstream, reset } = old
        return {
          runtime: frame.data.runtime,
          worker: frame.data.worker,
          state: frame.data.state,
          earlier: frame.data.earlier,
          gaps: 0,
          ...(upstream && { upstream }),
          ...(reset !== undefined && { reset }),
        }
      })
    case 'caught_up':
      return { ...state, live: true }
    case 'envelope':
      return withWorker(state, frame.data, old => ({ ...old, state: reduceWorker(old.state, frame.data) }))
    case 'gap':
      return withWorker(state, frame.data, old => ({ ...old, gaps: old.gaps + 1 }))
    case 'reset': {
      const { reason } = frame.data
      return { ...withWorker(state, frame.data, old => ({ ...old, reset: reason })), live: false }
    }
    case 'status': {
      const { runtime, worker, upstream, since, code } = frame.data
      const told: Upstream = { upstream, since, ...(code !== undefined && { code }) }
      if (worker === undefined) return { ...state, upstreams: { ...state.upstreams, [runtime]: told } }
      return withWorker(state, { runtime, worker }, old => ({ ...old, upstream: told }))
    }
    case 'command': {
      const { id, ...receipt } = frame.data
      const { [id]: _, ...others } = state.commands
      const kept = Object.entries(others).slice(-(COMMANDS_KEPT - 1))
      return { ...state, commands: { ...Object.fromEntries(kept), [id]: receipt } }
    }
    case 'bye':
      return { ...state, live: false, bye: { reason: frame.data.reason, retryMs: frame.data.retry_ms } }
    default:
      return state
  }
}

/** What a viewer may no longer see leaves the state at once, snapshot or not. */
function visibleWorkers(state: ClientState, views: readonly WorkerView[]): ClientState['workers'] {
  const visible = new Set(views.flatMap(v => ('state' in v ? [] : [workerKey(v.runtime, v.worker)])))
  return Object.fromEntries(Object.entries(state.workers).filter(([key]) => visible.has(key)))
}

function withWorker(
  state: ClientState,
  at: { runtime: string; worker: string },
  change: (old: WorkerEntry) => WorkerEntry,
): ClientState {
  const key = workerKey(at.runtime, at.worker)
  const old = state.workers[key] ?? {
    runtime: at.runtime,
    worker: at.worker,
    state: emptyWorkerState(),
    earlier: null,
    gaps: 0,
  }
  return { ...state, workers: { ...state.workers, [key]: change(old) } }
}
