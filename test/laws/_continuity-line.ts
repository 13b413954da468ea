import type { Observer } from '../../src/embedded-runtime/observer.ts'
import type { EmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import { beginObservation } from '../../src/embedded-runtime/upgrade.ts'
import type { EmbeddedWorker } from '../../src/embedded-runtime/worker.ts'
import type { Envelope } from '../../src/journal/entry.ts'
import type { EndCode } from '../../src/sources/runtime/ends.ts'
import { readFrame } from '../../src/sources/runtime/envelope.ts'
import { AFRESH, type Evidence, type Verdict } from '../../src/sources/runtime/opening.ts'
import type { FenceAct } from '../../src/sources/runtime/overlap.ts'
import type { Resumption } from '../../src/sources/runtime/resumption.ts'
import { WorkerStream } from '../../src/sources/runtime/worker-stream.ts'
import type { SourceSink } from '../../src/sources/source.ts'

const MISMATCH_MS = 2_000
const RESYNC_EVERY_MS = 2_000

interface At {
  readonly name: string
  readonly now: () => number
  readonly fences: readonly number[]
  /** How far a fresh snapshot is ahead of its stream. */
  readonly ahead: () => number
  /** Called before a connection is tried. */
  readonly returning: () => void
  /** Counts the lives of the Runtime's counter. */
  readonly life: () => number
  /** Whether something was said after `from` that is not among the `known` cursors. */
  readonly lost: (from: number, known: ReadonlySet<string>) => boolean
}

interface Opened {
  /** On the way, oldest first. */
  readonly frames: string[]
  readonly connection: string
  read: number
  over: boolean
}

interface Fencing {
  readonly resumption: Resumption | null
  /** What the Runtime had emitted when it said the snapshot. */
  readonly from: number
  steps: number
}

/**
 * The connections of one worker, without sockets: the Runtime says what it would write on one, and what is on the
 * way comes when the script says so. Opening, proof, comparison and resync are those of the source.
 */
export class Line {
  readonly #runtime: EmbeddedRuntime
  readonly #worker: () => EmbeddedWorker
  readonly #now: () => number
  readonly #fences: readonly number[]
  readonly #at: At
  readonly #stream: WorkerStream
  #connections = 0
  #open: Opened | null = null
  #fencing: Fencing | null = null
  #downSteps = 0
  #asked: 'oldest' | 'zero' = 'oldest'
  #mismatchAt: number | null = null
  #fetchedAt = Number.NEGATIVE_INFINITY
  #verdict: Verdict | null = null
  #lag = 0
  doubles = 0
  /** Upstream positions that were handed in since the newest list began, and where it began. */
  accepted = new Set<string>()
  begunAt = 0
  begun = 0
  /** Resumes of a list that so few events followed that they may prove too little. */
  bare = 0
  /** Resumes that were proven although something is lost. */
  readonly lies: string[] = []
  #begunLife = 0
  unclear = 0
  stale = 0
  /** The Runtime has forgotten events. */
  evicted = false

  constructor(runtime: EmbeddedRuntime, worker: () => EmbeddedWorker, sink: SourceSink, at: At) {
    this.#runtime = runtime
    this.#worker = worker
    this.#now = at.now
    this.#fences = at.fences
    this.#at = at
    this.#stream = new WorkerStream(sink, at.name, worker().id)
  }

  get standing(): boolean {
    return this.#open !== null && this.#fencing === null
  }

  get quiet(): boolean {
    return this.standing && this.#open?.frames.length === 0 && this.#mismatchAt === null
  }

  async begin(): Promise<void> {
    await this.#stream.open(null)
    await this.#connect()
  }

  /** The socket ends: what is on the way is lost. */
  cut(away: number): void {
    this.#downSteps = away
    if (this.#open !== null) this.#end('closed')
  }

  lag(steps: number): void {
    this.#lag = steps
  }

  /** A step of the script has passed. */
  async tick(): Promise<void> {
    if (this.#open === null) {
      if (this.#downSteps > 0) this.#downSteps -= 1
      else await this.#connect()
    } else if (this.#fencing !== null) {
      if (this.#fencing.steps > 0) this.#fencing.steps -= 1
      else await this.#fence()
    } else if (this.#lag > 0) this.#lag -= 1
    else await this.#deliver()
    await this.#look()
  }

  /** What time brings. */
  async #look(): Promise<void> {
    if (!this.standing) return
    if (this.#mismatchAt !== null && this.#now() >= this.#mismatchAt) {
      // What is on the way comes before the pong.
      await this.#deliver()
      if (this.#mismatchAt !== null) {
        this.#end('state_mismatch')
        await this.#connect()
      }
      return
    }
    const { due, idle, version } = this.#stream.resync
    if (!due || !idle || this.#now() < this.#fetchedAt + RESYNC_EVERY_MS) return
    this.#fetchedAt = this.#now()
    const glance = this.#say(undefined)
    const snapshot = this.#read(glance, glance.frames.shift()!)
    this.#leave(glance)
    if (snapshot.payload.includes('"status":"running"')) return
    await this.#deliver()
    if (this.#stream.resync.version !== version || !this.standing) return
    const outcome = this.#stream.resyncWith(snapshot)
    if (outcome.outcome !== 'differs') return
    this.#stream.replacedFor(outcome.reason)
    this.#end('resynced')
    await this.#connect()
  }

  async #connect(): Promise<void> {
    const { generation } = this.#runtime
    this.#at.returning()
    const resumption = generation === 'events-ws' ? await this.#stream.resumption(this.#asked, true) : null
    if (resumption !== null && this.accepted.size < 5) this.bare += 1
    const { log, lastCursor } = this.#worker()
    // Where events were forgotten, a snapshot at rest that says the same proves that nothing is lost.
    const agrees = log.activity === 'idle' && this.accepted.has(lastCursor) && !this.#stream.resync.due
    if (this.evicted && !agrees) this.unclear += 1
    // Between an input and its `status running` no snapshot tells that a run is under way; none shows a call
    // between its end and that of its message; and some show blocks of earlier turns as if they streamed (R22).
    const unseen = (log.run !== undefined && log.activity !== 'running') || log.calls.length > 0
    const stale = log.flight.blocks.some(block => block.stale || !log.inCall)
    if (stale) this.stale += 1
    if (unseen || stale) this.unclear += 1
    const from = this.#runtime.log.next - 1
    this.#open = this.#say((resumption ?? AFRESH).cursor)
    const steps = this.#fences[this.#connections % this.#fences.length] ?? 0
    this.#fencing = { resumption, from, steps }
    if (steps === 0) await this.#fence()
  }

  /** Everything that the Runtime wrote so far has come. */
  async #fence(): Promise<void> {
    const { resumption, from } = this.#fencing!
    const open = this.#open!
    const [first, ...rest] = open.frames.splice(0)
    const last = rest.at(-1)
    const diagnostic = last?.startsWith('{"kind":"diagnostic"') ? rest.pop() : undefined
    const snapshot = this.#read(open, first!)
    const evidence: Evidence = {
      snapshot,
      held: rest.map(frame => this.#read(open, frame)),
      diagnostic: diagnostic === undefined ? null : JSON.parse(diagnostic).diagnostic.code,
    }
    const verdict = (resumption ?? AFRESH).judge(evidence)
    this.#verdict = verdict
    if (verdict.verdict === 'retry_from_zero' || verdict.verdict === 'not_proven') {
      this.#end(verdict.verdict === 'retry_from_zero' ? 'ask_from_zero' : 'not_proven')
      await this.#connect()
      return
    }
    const { held } = evidence
    const firstNew = verdict.verdict === 'proven' ? verdict.firstNew : 0
    const fresh = held.slice(firstNew)
    this.#fencing = null
    let act: FenceAct = 'nothing'
    if (verdict.verdict === 'proven') {
      this.#stream.goOn()
      this.#check(held)
      act = resumption?.atFence(fresh.length > 0) ?? 'nothing'
    } else {
      this.#stream.begin(snapshot, this.#runtime.generation, fresh.length > 0)
      this.accepted = new Set()
      this.begunAt = from
      this.begun += 1
      this.#begunLife = this.#at.life()
    }
    for (const envelope of fresh) this.#hand(envelope)
    if (act === 'resync_due') this.#stream.resyncDue()
    if (act === 'wait_for_mismatch') this.#mismatchAt = this.#now() + MISMATCH_MS
  }

  #check(held: readonly Envelope[]): void {
    const { life, lost } = this.#at
    if (life() !== this.#begunLife && this.accepted.size > 0) this.lies.push('of another life')
    const known = new Set([...this.accepted, ...held.map(({ cursor = '' }) => cursor)])
    if (lost(this.begunAt, known)) this.lies.push('lost')
  }

  async #deliver(): Promise<void> {
    const open = this.#open
    if (open === null) return
    if (this.#fencing !== null) return this.#fence()
    for (const frame of open.frames.splice(0)) this.#hand(this.#read(open, frame))
    if (open.over) this.#end('overrun')
  }

  #hand(envelope: Envelope): void {
    this.#mismatchAt = null
    if (envelope.cursor !== undefined) this.accepted.add(envelope.cursor)
    this.#stream.accept(envelope)
  }

  #end(code: EndCode): void {
    const believedAt = this.standing ? this.#now() : null
    const verdict = this.#verdict
    this.#drop()
    this.#stream.ended({ code, opened: true, believedAt, verdict }, this.#runtime.generation)
    this.#asked = code === 'ask_from_zero' ? 'zero' : 'oldest'
  }

  #drop(): void {
    if (this.#open !== null) this.#leave(this.#open)
    this.#open = null
    this.#fencing = null
    this.#mismatchAt = null
    this.#verdict = null
    this.#lag = 0
  }

  #say(cursor: string | undefined): Opened {
    const line = this
    const frames: string[] = []
    const opened: Opened = { frames, connection: `c${this.#connections++}`, read: 0, over: false }
    // All that the Runtime asks of a socket.
    const observer = {
      opened,
      bufferedBytes: 0,
      waiting: false,
      begin: (first: readonly string[]) => frames.push(...first),
      say: (frame: string) => frames.push(frame),
      end: (frame?: string) => {
        if (frame !== undefined) frames.push(frame)
      },
      destroy: () => {},
      live(frame: string) {
        frames.push(frame)
        if (line.doubles <= 0 || line.#runtime.generation !== 'events-ws') return
        line.doubles -= 1
        frames.push(frame)
      },
    }
    this.#observers.set(opened, observer as unknown as Observer)
    const worker = this.#worker()
    worker.streamLag = this.#at.ahead()
    beginObservation(this.#runtime, observer as unknown as Observer, worker, cursor)
    return opened
  }

  readonly #observers = new Map<Opened, Observer>()

  #leave(opened: Opened): void {
    const observer = this.#observers.get(opened)
    this.#observers.delete(opened)
    if (observer === undefined) return
    for (const worker of this.#runtime.workers.values()) worker.observers.delete(observer)
  }

  #read(opened: Opened, frame: string): Envelope {
    const { generation } = this.#runtime
    const origin = { dialect: generation, worker: this.#worker().id, connection: opened.connection }
    opened.read += 1
    const read = readFrame(frame, origin, opened.read, this.#now())
    if (read.kind !== 'event') throw new Error(`the Runtime said something else: ${frame.slice(0, 200)}`)
    return read.envelope
  }
}
