/**
 * What a client knows of a worker. Types alone: this module costs a browser bundle nothing.
 * The `state` of a `snapshot` frame is a `WorkerState`, and the reducer's result is one too.
 */
import type { Class, Level, UpstreamState } from './vocabulary.ts'

/** What was withheld and how, never how much of it there was. `at` is a JSON pointer into the object. */
export interface Withheld {
  at: string
  class: Class
  level: Level
}

/** What was cut for its size alone: `chars` is the whole length, `rest` a same-origin path to all of it. */
export interface Cut {
  at: string
  chars: number
  rest: string
}

export interface Segment {
  kind: string
  [field: string]: unknown
}

interface ItemBase {
  /** The server's id for this item: equal in live frames, snapshots, pages and exports. */
  id: string
  /** Time of the newest frame that touched it, in milliseconds since the epoch. */
  time: number
  /** The session id of the internal worker it belongs to; absent for the worker's own. */
  internal?: string
  withheld?: Withheld[]
  cut?: Cut[]
}

export interface CommandOutput {
  status?: string
  exit_code?: number | null
  stdout?: string
  stderr?: string
}

export interface ToolResult {
  summary?: string
  output?: string
  is_error?: boolean
  attachments?: unknown[]
}

export type Item = ItemBase &
  (
    | { kind: 'user_message'; segments: Segment[] }
    | { kind: 'text'; text: string }
    | { kind: 'thinking'; text: string }
    | {
        kind: 'tool_call'
        call?: string
        name?: string
        arguments?: string
        result?: ToolResult
        command?: CommandOutput
      }
    | { kind: 'system'; item: Record<string, unknown> }
    | { kind: 'system_prompt'; text: string }
    | { kind: 'error'; code?: string; message?: string }
    | { kind: 'notice'; event: string; data: Record<string, unknown> }
    | { kind: 'unsupported'; event: string; data: unknown }
  )

export type ItemKind = Item['kind']

/** What may still grow. A call is open until its result; the others until their block ends. */
export type OpenBlockKind = 'text' | 'thinking' | 'stdout' | 'stderr'

export interface OpenBlock {
  block: string
  item: string
  kind: OpenBlockKind
  internal?: string
}

export interface OpenCall {
  block: string
  item: string
  call?: string
  name?: string
  internal?: string
}

export interface InternalWorker {
  session_id: string
  name?: string
  parent_session_id?: string
  kind?: string
  status?: string
}

export interface WorkerState {
  status: string | null
  greeting?: Record<string, unknown>
  items: Item[]
  open: { blocks: OpenBlock[]; calls: OpenCall[] }
  internal_workers: InternalWorker[]
  usage?: Record<string, unknown>
}

/** What a viewer may see of one worker: the classes that are not dropped, and the commands granted. */
export type WorkerView =
  | { runtime: string; worker: string; classes: Partial<Record<Class, Level>>; commands: string[] }
  | { runtime: string; worker: string; state: 'not_found' }

export interface Upstream {
  upstream: UpstreamState
  since: number
  code?: string
}

/** One worker as a client holds it: its state, what lies behind it, and what was said about its source. */
export interface WorkerEntry {
  runtime: string
  worker: string
  state: WorkerState
  /** Cursor of the history page before the oldest item, or null when there is nothing before it. */
  earlier: string | null
  upstream?: Upstream
  /** Why the list was last replaced, and how often something was lost since. */
  reset?: string
  gaps: number
}

export interface ClientState {
  /** Id of the last frame that had one: where to resume. */
  position: string | null
  outcome: 'fresh' | 'resumed' | 'reset' | null
  reason?: string
  policy: string | null
  heartbeatMs: number
  views: WorkerView[]
  /** By `runtime/worker`. */
  workers: Record<string, WorkerEntry>
  /** By runtime: the connection to the Runtime itself. */
  upstreams: Record<string, Upstream>
  /** This viewer's commands by receipt id, newest last, at most 100. */
  commands: Record<string, { command: string; state: string; code?: string | undefined }>
  /** True from `caught_up` until the next burst begins. */
  live: boolean
  bye?: { reason: string; retryMs: number }
}
