/** A Runtime, its workers and a whole Shoji before them: what most flows begin with. */
import type { ClientState, Frame, Item } from '@shoji/web-contract'
import { type EmbeddedRuntime, startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import type { EmbeddedWorker, WorkerOptions } from '../../src/embedded-runtime/worker.ts'
import type { Overrides } from '../../src/service.ts'
import { type RunningShoji, type ShojiOptions, startShoji, TOKENS, type User } from './shoji.ts'
import { type StreamOptions, TestStream } from './sse.ts'

/** Discovery and reconnects at the pace of a test. */
export const QUICK: Overrides = {
  runtimeLimits: {
    pollMs: 50,
    retry: { baseMs: 10, maxMs: 50 },
    slowRetry: { baseMs: 50, maxMs: 100 },
  },
}

export interface FlowOptions extends Partial<Omit<ShojiOptions, 'runtimes'>> {
  readonly workers?: number
  readonly worker?: WorkerOptions
}

export interface Flow extends AsyncDisposable {
  readonly runtime: EmbeddedRuntime
  readonly workers: readonly EmbeddedWorker[]
  readonly worker: EmbeddedWorker
  shoji: RunningShoji
  /** Address of a worker's API; the first worker's where none is named. */
  at(worker?: EmbeddedWorker): string
  open(options?: FlowStream, state?: ClientState): Promise<TestStream>
  /** Stops Shoji and starts it again on the same directory. `between` runs while none is there. */
  restart(options?: Partial<ShojiOptions>, between?: () => void | Promise<void>): Promise<void>
}

interface FlowStream extends Omit<StreamOptions, 'token'> {
  readonly user?: User
  readonly url?: string
  readonly worker?: EmbeddedWorker
}

/** Room for bursts of any size: what a Runtime drops of its own is the subject of other tests. */
export const startRoomyRuntime = (port = 0): Promise<EmbeddedRuntime> =>
  startEmbeddedRuntime({
    generation: 'events-ws',
    port,
    queueEvents: 1_000_000,
    backlogEvents: 4_096,
    socketBufferBytes: 256 * 1024 * 1024,
  })

export async function startFlow(options: FlowOptions = {}): Promise<Flow> {
  const { workers: count = 1, worker: workerOptions, ...shojiOptions } = options
  const runtime = await startRoomyRuntime()
  const workers = Array.from({ length: count }, () => runtime.addWorker({ ...workerOptions }))
  const runtimes = [{ id: 'rt', url: runtime.url }]
  const start = (more: Partial<ShojiOptions> = {}): Promise<RunningShoji> =>
    startShoji({
      runtimes,
      ...shojiOptions,
      ...more,
      // What these flows emit is no run, so no log of it says the same: comparing them is another test's matter.
      overrides: { resync: false, ...(more.overrides ?? shojiOptions.overrides ?? QUICK) },
    })
  const worker = workers[0]!
  const flow: Flow = {
    runtime,
    workers,
    worker,
    shoji: await start(),
    at: (of = worker) => `${flow.shoji.url}/api/runtimes/rt/workers/${of.id}`,
    open: ({ user = 'admin', url, worker: of, ...rest } = {}, state) =>
      TestStream.open(
        url ?? `${flow.at(of)}/events`,
        { token: TOKENS[user], ...rest },
        state && { ...state, live: false },
      ),
    async restart(more, between) {
      const { directory } = flow.shoji
      await flow.shoji.stop()
      await between?.()
      flow.shoji = await start({ ...more, directory })
      await untilKnown(flow.shoji, workers.length)
    },
    async [Symbol.asyncDispose]() {
      await flow.shoji[Symbol.asyncDispose]()
      await runtime.close()
    },
  }
  await untilKnown(flow.shoji, count)
  return flow
}

/** Waits until so many workers of `rt` have told their status. */
export async function untilKnown(shoji: RunningShoji, count: number): Promise<void> {
  await eventually(async () => {
    const answer = await fetch(`${shoji.url}/api/runtimes/rt/workers`, { headers: bearer('admin') })
    const { items } = (await answer.json()) as { items: { status: string | null; upstream: string }[] }
    return items.filter(w => w.status !== null && w.upstream === 'live').length >= count
  }, `${count} workers are known`)
}

export const bearer = (user: User): Record<string, string> => ({ authorization: `Bearer ${TOKENS[user]}` })

/** Asks again until it is so; fails by name when it never is. */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs = 20_000,
): Promise<void> {
  const deadline = Date.now() + timeoutMs
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`never came true: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}

export const tell = (worker: EmbeddedWorker, text: string): void =>
  void worker.emit({ event: 'user_message', data: { segments: [{ kind: 'text', content: text }] } })

export const delta = (worker: EmbeddedWorker, text: string): void =>
  void worker.emit({ event: 'text_delta', data: { text } })

export const done = (worker: EmbeddedWorker, text: string): void =>
  void worker.emit({ event: 'text_done', data: { text } })

/** Texts of one worker's items, in order; what a reader sees of it. */
export const textsOf = (state: ClientState, worker: EmbeddedWorker): string[] =>
  (state.workers[`rt/${worker.id}`]?.state.items ?? []).map(textOf)

export const textOf = (item: Item): string => {
  if (item.kind === 'user_message')
    return item.segments.map(s => ('content' in s ? String(s.content) : '')).join('')
  return 'text' in item && typeof item.text === 'string' ? item.text : item.kind
}

export const saw = (worker: EmbeddedWorker, text: string) => (stream: TestStream) =>
  textsOf(stream.state, worker).includes(text)

/** The worker's state as the viewer has it; fails where it has none. */
export const stateOf = (state: ClientState, worker: EmbeddedWorker) => {
  const entry = state.workers[`rt/${worker.id}`]
  if (entry === undefined) throw new Error('nothing is known of the worker')
  return entry.state
}

/** What the envelopes said, in the order in which they came. */
export const said = (frames: readonly Frame[]): string[] =>
  frames.flatMap(frame => {
    if (frame.event !== 'envelope') return []
    const { event, data } = frame.data
    if (event === 'user_message')
      return (data.segments as { content?: string }[]).map(segment => String(segment.content))
    return typeof data.text === 'string' ? [data.text] : [event]
  })

export const outcomeOf = (stream: TestStream): string => {
  const hello = stream.frames[0]
  if (hello?.event !== 'hello') throw new Error('no hello')
  return hello.data.reason === undefined ? hello.data.outcome : `${hello.data.outcome} ${hello.data.reason}`
}
