import type { AgentRun } from './agent.ts'
import { cancelled, errorEvent, type RuntimeEvent, status, usage } from './events.ts'
import { notification } from './fold.ts'
import { isObject, type Json, textAt } from './json.ts'
import type { EmbeddedWorker } from './worker.ts'
import { abandonPausedTurn, interruptItem, segmentStart } from './worker-log.ts'

export interface RunRequest {
  readonly segments: readonly Json[]
  readonly text: string
  readonly trigger: AgentRun['trigger']
}

const knownSegments = {
  'events-ws': new Set(['text', 'paste', 'file_ref', 'knowledge_ref', 'workflow_invoke']),
  'protocol-ws': new Set(['text', 'paste', 'file_ref', 'flow']),
}

/** The turns of one worker: how a run opens, and what it looks like when it is cancelled, paused or resumed. */
export class Turns {
  readonly #worker: EmbeddedWorker
  #current: { readonly abort: AbortController; readonly run: AgentRun } | undefined
  #paused: RunRequest = { segments: [], text: '', trigger: 'user_send' }
  #settled: Promise<void> = Promise.resolve()

  constructor(worker: EmbeddedWorker) {
    this.#worker = worker
  }

  /** Resolves when no agent runs. */
  get settled(): Promise<void> {
    return this.#settled
  }

  start(request: RunRequest): void {
    const known = knownSegments[this.#worker.generation]
    const segments = request.segments.map(segment =>
      known.has(textAt(segment, 'kind')) ? segment : { kind: 'unknown' },
    )
    const run = { ...request, segments }
    this.#launch(run, this.#open(run), false)
  }

  cancel(): void {
    const worker = this.#worker
    const { log } = worker
    if (log.activity === 'idle') {
      worker.say(errorEvent('not_running', 'Worker is not running'))
      return
    }
    if (log.activity === 'paused') {
      if (worker.options.echo !== 'off') abandonPausedTurn(log, worker.context)
      this.#enter('idle')
      return
    }
    this.abandon()
    if (log.run && !log.run.output) worker.say({ event: 'run_end', data: { result: 'rolled_back' } })
    else {
      if (log.inCall) worker.say(usage(1200, 1))
      worker.say(cancelled)
    }
    this.#enter('idle')
  }

  pause(): void {
    const worker = this.#worker
    if (worker.log.activity !== 'running') {
      worker.say(errorEvent('not_running', 'Worker is not running'))
      return
    }
    this.abandon()
    if (worker.log.inCall) worker.say(usage(1200, 1))
    worker.say({ event: 'run_end', data: { result: 'paused' } })
    this.#enter('paused')
  }

  resume(): void {
    if (this.#worker.log.activity !== 'paused') {
      this.#worker.say(errorEvent('not_paused', 'Worker is not paused'))
      return
    }
    this.#worker.say(status('running'))
    this.#launch(this.#paused, [], true)
  }

  /** The agent stops where it is; nobody is told. */
  abandon(): void {
    const current = this.#current
    this.#current = undefined
    if (!current) return
    this.#paused = current.run
    current.abort.abort()
  }

  #launch(request: RunRequest, late: readonly RuntimeEvent[], resumed: boolean): void {
    const { agent } = this.#worker.options
    if (!agent) return
    const abort = new AbortController()
    const run: AgentRun = { ...request, late, resumed, signal: abort.signal }
    const current = { abort, run }
    this.#current = current
    const ended = (failure?: unknown): void => {
      if (this.#current !== current) return
      this.#current = undefined
      if (failure !== undefined) this.#worker.say(errorEvent('internal', String(failure)))
      this.#enter('idle')
    }
    this.#settled = agent(this.#worker, run).then(() => ended(), ended)
  }

  #open(run: RunRequest): RuntimeEvent[] {
    return this.#worker.generation === 'events-ws' ? this.#openFirst(run) : this.#openLater(run)
  }

  /** Of a run begun by method or notification the first generation tells nothing but its status (R24, R57). */
  #openFirst({ trigger, segments, text }: RunRequest): RuntimeEvent[] {
    const worker = this.#worker
    const said: RuntimeEvent = { event: 'user_message', data: { segments } }
    const system: RuntimeEvent = {
      event: 'system_item',
      data: { item: { content: text, kind: 'embedded_worker_system_input' } },
    }
    if (trigger === 'initial') {
      worker.say(status('running'))
      worker.say(said)
      return []
    }
    if (trigger === 'user_send') worker.say(said)
    else if (trigger === 'system') worker.say(system)
    else if (worker.options.echo !== 'off') worker.fold(trigger === 'method' ? said : system)
    worker.say(status('running'))
    return []
  }

  /** Returns what comes only after the first model call began: the log's events race with the engine's (R47). */
  #openLater({ trigger, segments, text }: RunRequest): RuntimeEvent[] {
    const worker = this.#worker
    const isUser = trigger !== 'notify' && trigger !== 'system'
    const said: RuntimeEvent = { event: 'user_message', data: { segments } }
    const invoke: RuntimeEvent = { event: 'invoke_start', data: { kind: isUser ? 'user_send' : 'notify' } }
    const logged: RuntimeEvent = isUser ? said : { event: 'system_item', data: { item: notification(text) } }
    const twice = trigger === 'user_send' || trigger === 'initial'
    const firstRun = worker.log.entries.length === 0
    const interrupted = worker.log.interrupted
    if (firstRun || interrupted) {
      worker.say(status('running'))
      if (firstRun) worker.say({ event: 'segment_rotated', data: { entry: segmentStart(worker.context) } })
      if (interrupted) worker.say({ event: 'system_item', data: { item: interruptItem } })
      worker.say(invoke)
      worker.say(logged)
      if (twice) worker.say(said)
      return []
    }
    worker.say(invoke)
    worker.say(logged)
    worker.say(status('running'))
    return twice ? [said] : []
  }

  #enter(activity: 'idle' | 'paused'): void {
    const worker = this.#worker
    worker.say(status(activity))
    if (worker.generation !== 'protocol-ws') return
    worker.say({
      event: 'memory_worker',
      data: {
        worker: 'extract',
        status: 'skipped',
        run_id: worker.context.newId(),
        trigger: 'token_threshold',
        reason: 'extract_threshold_disabled',
        message: 'memory extract skipped: extract_threshold_disabled',
        timestamp_ms: worker.context.now(),
      },
    })
  }
}

/** The text of an input: the contents of its segments, joined. */
export const inputText = (segments: readonly Json[]): string =>
  segments.map(segment => (isObject(segment) ? textAt(segment, 'content') : '')).join('')
