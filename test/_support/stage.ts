/** Delivery on real sockets before a real journal that can be slowed: for races that a whole server would hide. */
import { createServer, get, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  CLASSES,
  type ClientState,
  emptyClientState,
  type Frame,
  reduce,
  type WorkerView,
} from '@shoji/web-contract'
import { createParser } from 'eventsource-parser'
import { createDelivery, type Delivery, type DeliveryLimits } from '../../src/delivery/delivery.ts'
import { type Audience, createAudience, type Selection } from '../../src/delivery/selection.ts'
import type { Seq } from '../../src/journal/entry.ts'
import type { Journal } from '../../src/journal/journal.ts'
import type { StreamWriter } from '../../src/journal/way-in.ts'
import type { CompiledPolicy, View } from '../../src/projection/view.ts'
import { createUpstreams } from '../../src/sources/upstreams.ts'
import { openWorld, type World } from '../laws/_world.ts'

export interface Stage extends World, AsyncDisposable {
  readonly delivery: Delivery
  /** A worker of `rt` with its first snapshot journaled. */
  worker(name: string): Promise<StageWorker>
  audience(selection?: Selection): Audience
  connect(options?: { cursor?: Seq; selection?: Selection }): StageViewer
  /** What `hello` and `view` tell from now on. */
  views: WorkerView[]
}

export interface StageWorker {
  readonly writer: StreamWriter
  say(text: string): void
  delta(text: string): void
  /** Replaces the list. */
  begin(): void
  event(event: string, data: object): void
}

const everything: View = {
  observe: true,
  levels: Object.fromEntries(CLASSES.map(c => [c, 'show'])) as View['levels'],
  commands: [],
  hash: 'everything',
}
const policy: CompiledPolicy = { hash: 'p', view: () => everything, subjectHash: () => 'everything' }
const subject = { user: 'u', roles: [], groups: [] }

const LIMITS: DeliveryLimits = {
  streams: 10_000,
  streamsPerUser: 10_000,
  bufferedBytes: 1024 * 1024,
  heartbeatMs: 60_000,
  rotateMs: 600_000,
  stalledMs: 60_000,
}

export async function openStage(
  options: { wrap?: (journal: Journal) => Journal; limits?: Partial<DeliveryLimits> } = {},
): Promise<Stage> {
  const world = await openWorld()
  let views: WorkerView[] = []
  const folding = {
    ...world.folding,
    journal: options.wrap?.(world.journal) ?? world.journal,
    views: () => views,
  }
  const delivery = createDelivery({
    folding,
    ingest: world.ingest,
    upstreams: createUpstreams(),
    limits: { ...LIMITS, ...options.limits },
    now: Date.now,
    random: Math.random,
  })
  const audience = (selection: Selection = { kind: 'runtime', runtime: 'rt' }): Audience =>
    createAudience(world.journal.keys.id, { selection, policy, subject, history: 100 })
  const server = createServer((request, response) => {
    const asked = new URL(request.url ?? '/', 'http://x').searchParams
    const selection = JSON.parse(asked.get('selection') ?? 'null') as Selection | null
    delivery.open(response, audience(selection ?? undefined), asked.get('cursor'))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  let said = 0
  return {
    ...world,
    folding,
    delivery,
    audience,
    get views() {
      return views
    },
    set views(changed) {
      views = changed
    },
    async worker(worker) {
      const writer = await world.ingest.open({ source: 'runtime', runtime: 'rt', worker }, null)
      const envelope = (event: string, data: object) => ({
        eventId: `e${said++}`,
        payload: JSON.stringify({ event, data }),
        time: said,
      })
      const of: StageWorker = {
        writer,
        event: (event, data) => writer.accept(envelope(event, data)),
        say: text => of.event('user_message', { segments: [{ kind: 'text', content: text }] }),
        delta: text => of.event('text_delta', { text }),
        begin: () =>
          writer.begin(envelope('snapshot', { status: 'idle', entries: [] }), {
            reason: 'upstream_gap',
            dialect: 'events-ws',
            followed: false,
          }),
      }
      of.begin()
      await world.journal.durable(world.ingest.position)
      return of
    },
    connect({ cursor, selection } = {}) {
      const at = new URL(`http://127.0.0.1:${port}/`)
      if (selection !== undefined) at.searchParams.set('selection', JSON.stringify(selection))
      if (cursor !== undefined)
        at.searchParams.set('cursor', folding.cursors.encode(cursor, audience(selection).tag))
      return new StageViewer(at, text => {
        const decoded = folding.cursors.decode(text, audience(selection).tag)
        if (!decoded.ok) throw new Error(`an id that is ${decoded.reason}`)
        return decoded.seq
      })
    },
    async [Symbol.asyncDispose]() {
      delivery.drain('shutdown', 0)
      delivery.stop()
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
      await world.close()
    },
  }
}

/** One viewer's frames as they come, with what each moved it to. */
export class StageViewer {
  readonly frames: Frame[] = []
  /** Positions of envelopes and whole bursts, in the order in which they came. */
  readonly seqs: number[] = []
  ended = false
  #wake: (() => void)[] = []
  readonly #request: ReturnType<typeof get>
  #response: IncomingMessage | undefined

  constructor(at: URL, seqOf: (id: string) => Seq) {
    let inBurst = false
    const parser = createParser({
      onEvent: ({ event, id, data }) => {
        const frame = { event, data: JSON.parse(data), ...(id !== undefined && { id }) } as Frame
        this.frames.push(frame)
        if (frame.event === 'snapshot') inBurst = true
        if (frame.event === 'envelope' || (frame.event === 'caught_up' && inBurst)) {
          this.seqs.push(seqOf(frame.id!))
          inBurst = false
        }
        this.#notify()
      },
    })
    this.#request = get(at, { agent: false }, response => {
      this.#response = response
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => parser.feed(chunk))
      response.on('close', () => this.#end())
    })
    this.#request.on('error', () => this.#end())
  }

  async until(condition: (viewer: StageViewer) => boolean, what: string, timeoutMs = 10_000): Promise<this> {
    const timer = setTimeout(() => this.#notify(), timeoutMs)
    const deadline = Date.now() + timeoutMs - 5
    while (!condition(this)) {
      if (this.ended || Date.now() >= deadline)
        throw new Error(
          `${what}: not met; last frames ${JSON.stringify(this.frames.slice(-4)).slice(0, 900)}`,
        )
      await new Promise<void>(resolve => this.#wake.push(resolve))
    }
    clearTimeout(timer)
    return this
  }

  /** All frames so far, reduced. */
  get state(): ClientState {
    return this.frames.reduce(reduce, emptyClientState())
  }

  /** Stops reading: the server's writes pile up in the sockets between. */
  pause(): void {
    this.#response?.pause()
  }

  resume(): void {
    this.#response?.resume()
  }

  close(): void {
    this.#request.destroy()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  #end(): void {
    this.ended = true
    this.#notify()
  }

  #notify(): void {
    for (const resolve of this.#wake.splice(0)) resolve()
  }
}
