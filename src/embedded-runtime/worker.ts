import type { Agent } from './agent.ts'
import { formatCursor } from './cursor.ts'
import type { Dialect } from './dialect.ts'
import type { Generation, RuntimeEvent, WorkerActivity } from './events.ts'
import { foldEvent } from './fold.ts'
import { greeting, standInGreeting } from './greeting.ts'
import { isObject, type JsonObject, parseJson } from './json.ts'
import { compactedSegment } from './log-segment.ts'
import type { ObservationLog } from './observation-log.ts'
import type { Observer } from './observer.ts'
import { type RunRequest, Turns } from './turns.ts'
import {
  appendEntry,
  emptyLog,
  type LogContext,
  loseUnwritten,
  snapshotData,
  type WorkerLog,
} from './worker-log.ts'

/** `running` whatever the worker does; activity is another thing (R4). */
export type WorkerLife = 'running' | 'cancelled' | 'stopped'
export type RunState = 'idle' | 'busy' | 'errored' | 'stopped'

export interface WorkerOptions {
  /** Decimal in `events-ws`, UUIDv7 in `protocol-ws`; the next free one if absent. */
  readonly workerId?: string
  readonly profile?: string
  readonly displayName?: string
  readonly model?: string
  readonly cwd?: string
  readonly tools?: readonly string[]
  /** What answers inputs; none: inputs are echoed and the caller emits what follows. */
  readonly agent?: Agent
  /**
   * `off`: inputs and methods are answered and change the worker's state, but the caller emits every
   * event; for replays, where the recording has them all.
   */
  readonly echo?: 'on' | 'off'
  /** `off`: a compaction is refused with an alert, as without a configured compactor. */
  readonly compaction?: 'on' | 'off'
  /** `off`: only the status is kept, so that a long bench needs no memory. */
  readonly log?: 'on' | 'off'
}

export interface WorkerHost {
  readonly dialect: Dialect
  readonly log: ObservationLog
  readonly now: () => number
  readonly newId: () => string
}

export interface LastResult {
  readonly operation: string
  readonly outcome: string
  readonly run_state: RunState
  readonly message?: string
}

type Fate = 'lose' | 'double'

const defaultTools = [
  'Bash',
  'Edit',
  'Glob',
  'Grep',
  'Read',
  'TaskCreate',
  'TaskGet',
  'TaskList',
  'TaskUpdate',
  'Write',
]

/**
 * One worker: what it says goes through `emit`, which numbers the event, folds it into the log that
 * snapshots show, retains it and sends it to every observation socket of this worker, all synchronously.
 */
export class EmbeddedWorker {
  readonly id: string
  readonly idJson: string
  readonly options: WorkerOptions
  readonly observers = new Set<Observer>()
  readonly workingDirectoryId: string
  readonly cwd: string
  life: WorkerLife = 'running'
  runState: RunState = 'idle'
  lastResult: LastResult | undefined = { operation: 'spawn', outcome: 'accepted', run_state: 'idle' }
  lastEventId = 0
  /** The worker's process is gone though the catalog says `running` (after a `shutdown` by protocol method). */
  channelClosed = false
  /** Streams without a cursor begin so many events before the end, though the snapshot has them (R21). */
  streamLag = 0
  /** Its stored log is damaged: the worker vanishes at the next start (R40). */
  torn = false
  readonly context: LogContext
  log: WorkerLog = emptyLog()
  readonly #host: WorkerHost
  readonly #turns: Turns
  readonly #fates: { fate: Fate; left: number; applies: (event: RuntimeEvent) => boolean }[] = []
  #snapshotPadding = ''
  #lastPosition = 0
  #contextTokens = 0

  constructor(id: string, options: WorkerOptions, host: WorkerHost) {
    this.id = id
    this.options = options
    this.#host = host
    this.idJson = host.dialect.idJson(id)
    this.#turns = new Turns(this)
    this.workingDirectoryId = `${host.newId().replaceAll('-', '').slice(0, 12)}0000000`
    this.cwd = options.cwd ?? `/srv/agents/demo/workdirs/${this.workingDirectoryId}/checkout`
    this.context = {
      generation: host.dialect.generation,
      now: host.now,
      newId: host.newId,
      systemPrompt: `You are a demo agent. You are operating in ${this.cwd}.`,
    }
  }

  get generation(): Generation {
    return this.context.generation
  }

  get activity(): WorkerActivity {
    return this.log.activity
  }

  get entries(): readonly string[] {
    return this.log.entries
  }

  get segmentId(): string {
    return this.log.segmentId
  }

  get turns(): number {
    return this.log.turns
  }

  get llmCalls(): number {
    return this.log.llmCalls
  }

  /** The position of the last event it published; 0 before the first. */
  get lastPosition(): number {
    return this.#lastPosition
  }

  get lastCursor(): string {
    return formatCursor(this.#lastPosition)
  }

  /** The largest number of bytes that wait in this process for one of its sockets. */
  get bufferedBytes(): number {
    let most = 0
    for (const observer of this.observers) most = Math.max(most, observer.bufferedBytes)
    return most
  }

  /** Whether one of its sockets stands still, so that its events wait in the queue. */
  get waiting(): boolean {
    for (const observer of this.observers) if (observer.waiting) return true
    return false
  }

  /** Resolves when no agent runs. */
  get settled(): Promise<void> {
    return this.#turns.settled
  }

  /** Publishes one event. Returns its position, `undefined` if it was lost on the way (see `misbehave`). */
  emit(event: RuntimeEvent): number | undefined {
    return this.#publish(event, JSON.stringify(event))
  }

  /** Publishes a payload given as JSON text, byte for byte. Throws on what is no event. */
  emitJson(json: string): number | undefined {
    const event = parseJson(json)
    if (!isObject(event) || typeof event.event !== 'string') throw new TypeError('not a protocol event')
    const data = event.data
    return this.#publish({ event: event.event, ...(isObject(data) ? { data } : {}) }, json)
  }

  /** Folds an event into the log without telling anybody. */
  fold(event: RuntimeEvent): void {
    foldEvent(this.log, this.context, event, JSON.stringify(event))
  }

  /** Appends an entry that no live event tells (a notification, an attachment, an interrupt). */
  appendLog(entry: JsonObject): void {
    appendEntry(this.log, this.context, entry)
  }

  /** A frame as it is, outside of the numbering: not retained, folded nowhere. */
  sendRaw(frame: string): void {
    this.#host.log.enqueue(this.id, frame)
    for (const observer of this.observers) observer.live(frame)
  }

  /** `lose`: the event vanishes before it is numbered but enters the log (R20). `double`: it is sent twice. */
  misfate(fate: Fate, count: number, applies: (event: RuntimeEvent) => boolean = () => true): void {
    this.#fates.push({ fate, left: count, applies })
  }

  /** Makes every later snapshot larger by this many bytes, as one log entry. */
  padSnapshot(bytes: number): void {
    this.#snapshotPadding = bytes > 0 ? 'x'.repeat(bytes) : ''
  }

  /** The `data` of a snapshot; the empty stand-in for a stopped worker (R11). */
  snapshotData(): string {
    if (this.life === 'stopped') return snapshotData(emptyLog(), JSON.stringify(standInGreeting(this.id)))
    const shown = JSON.stringify(
      greeting(this.generation, {
        workerId: this.id,
        cwd: this.cwd,
        model: this.options.model ?? 'qwen3-coder',
        tools: this.options.tools ?? defaultTools,
        contextTokens: this.#contextTokens,
      }),
    )
    if (this.#snapshotPadding === '') return snapshotData(this.log, shown)
    const padding = JSON.stringify({
      domain: 'padding',
      kind: 'extension',
      payload: this.#snapshotPadding,
      ts: this.#host.now(),
    })
    return snapshotData({ ...this.log, entries: [...this.log.entries, padding] }, shown)
  }

  /** Whether an input is refused as busy. */
  get busy(): boolean {
    return this.log.activity !== 'idle'
  }

  /** Begins a run: the events that open it, then the agent. The worker must not be busy. */
  start(run: RunRequest): void {
    this.#turns.start(run)
  }

  /** Ends the turn that runs or stands paused, with the events of the recordings (R26). */
  cancel(): void {
    this.#turns.cancel()
  }

  pause(): void {
    this.#turns.pause()
  }

  /** Asks the model anew within the same turn; only later Runtimes can (R36, R53). */
  resume(): void {
    this.#turns.resume()
  }

  /** Ends the worker: what runs is cancelled, then `shutdown`; its sockets stay open and silent. */
  stop(): void {
    this.runState = 'stopped'
    if (this.activity === 'running') this.cancel()
    this.say({ event: 'shutdown' })
    this.life = 'stopped'
  }

  /** The process dies: no event tells it, and what was not in the log is gone. */
  die(): void {
    this.#turns.abandon()
    loseUnwritten(this.log)
    this.#contextTokens = Math.ceil(this.log.entries.reduce((sum, entry) => sum + entry.length, 0) / 4)
    if (this.life === 'running') this.runState = 'idle'
    this.lastResult = undefined
  }

  compact(): void {
    const later = this.generation === 'protocol-ws'
    this.say({ event: 'compact_start' })
    if (later)
      this.say({ event: 'segment_rotated', data: { entry: compactedSegment(this.log, this.context) } })
    this.say({ event: 'compact_done', data: { new_segment_id: this.context.newId() } })
  }

  /** What the worker says by itself: nothing if the caller emits every event. */
  say(event: RuntimeEvent): void {
    if (this.options.echo !== 'off') this.emit(event)
  }

  #publish(event: RuntimeEvent, json: string): number | undefined {
    if (event.event === 'status') this.#project(event)
    if (this.options.log !== 'off' || event.event === 'status') foldEvent(this.log, this.context, event, json)
    const fate = this.#fates.length > 0 ? this.#fateOf(event) : undefined
    if (fate === 'lose') return undefined
    const { log, dialect } = this.#host
    const position = log.take()
    const frame = dialect.eventFrame(this.idJson, position, json)
    this.#lastPosition = position
    log.retain({ position, workerId: this.id, frame })
    for (let times = fate === 'double' ? 2 : 1; times > 0; times -= 1) {
      log.enqueue(this.id, frame)
      for (const observer of this.observers) observer.live(frame)
    }
    return position
  }

  /** The catalog's `run_state` is a projection of the stream, and a paused turn is busy (R4). */
  #project(event: RuntimeEvent): void {
    const activity = event.data?.status
    if (activity === 'running') this.runState = 'busy'
    else if (activity === 'idle') this.runState = 'idle'
  }

  #fateOf(event: RuntimeEvent): Fate | undefined {
    const index = this.#fates.findIndex(rule => rule.applies(event))
    const rule = this.#fates[index]
    if (!rule) return undefined
    rule.left -= 1
    if (rule.left <= 0) this.#fates.splice(index, 1)
    return rule.fate
  }
}
