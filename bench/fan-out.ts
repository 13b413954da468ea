import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Peer } from './processes/fan-out-peers.ts'
import type { ShojiReport } from './processes/shoji.ts'
import type { ViewersReport } from './processes/viewers.ts'
import { ROOT } from './support/bundles.ts'
import { Child, CLIENT_CORES, canPin, SERVER_CORES } from './support/child.ts'
import { type Bench, type BenchContext, scratch, startShoji, untilServed } from './support/context.ts'
import { type Disturbed, disturbance, inPeace } from './support/others.ts'
import { RawStream } from './support/raw-stream.ts'
import { STAMP_CHARS, STAMP_HOLE } from './support/stamp.ts'
import { median, show } from './support/stats.ts'
import type { Row } from './support/table.ts'

const VIEWERS = 500
const P99_MS = 25
const STEP_SECONDS = 1.2
const STEPS_MAX = 8
const CONFIRM_RUNS = 5
const CONFIRM_TRIES = 2
/** Events a second at which Shoji's latency is held beside the floor's, whatever rate either can keep. */
const SIDE_BY_SIDE = 1_000
const CALIBRATION = { perSecond: 200, seconds: 0.05 }

/** One server under test: what it is told to publish reaches all viewers of its address. */
interface Contestant {
  readonly name: string
  /** Events a second the search begins with. */
  readonly guess: number
  readonly sideBySide: boolean
  start(): Promise<Serving>
}

interface Serving {
  readonly url: string
  /** Text that each viewer has to have seen before the first event. */
  readonly until?: string
  publish(perSecond: number, seconds: number): Promise<{ events: number; elapsedMs: number }>
  ready(): Promise<void>
  report(): Promise<unknown>
  stop(): Promise<void>
}

interface Step extends ViewersReport, Disturbed {
  readonly perSecond: number
  readonly equal: boolean
  readonly server: unknown
}

interface Best {
  readonly perSecond: number
  readonly deliveries: number
  readonly p99Ms: number
  readonly frameBytes: number
  readonly steps: readonly Step[]
  readonly confirmed: readonly Step[]
  readonly sideBySide: readonly Step[]
}

/** A server with its viewers opened, and the bytes that each event costs one of them. */
const open = async (contestant: Contestant) => {
  const serving = await contestant.start()
  const { child: client } = await Child.start('viewers', {}, { cores: CLIENT_CORES })
  const { until } = serving
  const targets = Array.from({ length: VIEWERS }, () => ({ url: serving.url }))
  await client.ask('open', { targets, ...(until !== undefined && { until }) })
  await serving.ready()
  await client.ask('settled', { bytes: Number.MAX_SAFE_INTEGER })
  await client.ask('mark')
  const { events } = await serving.publish(CALIBRATION.perSecond, CALIBRATION.seconds)
  const { bytesMin, bytesMax } = await client.ask<ViewersReport>('settled', {
    bytes: Number.MAX_SAFE_INTEGER,
  })
  if (bytesMin !== bytesMax || bytesMin % events !== 0)
    throw new Error(`${contestant.name}: ${bytesMin} to ${bytesMax} bytes for ${events} events`)
  const stop = async (): Promise<void> => {
    await client.stop()
    await serving.stop()
  }
  return { serving, client, frameBytes: bytesMin / events, stop }
}

type Opened = Awaited<ReturnType<typeof open>>

const step = async (
  { serving, client, frameBytes }: Opened,
  perSecond: number,
): Promise<Omit<Step, keyof Disturbed>> => {
  await client.ask('mark', { frameBytes })
  const { events } = await serving.publish(perSecond, STEP_SECONDS)
  const bytes = events * frameBytes
  const report = await client.ask<ViewersReport>('settled', { bytes })
  const equal =
    report.broken === 0 &&
    report.bytesMin === bytes &&
    report.bytesMax === bytes &&
    report.framesMin === events &&
    report.framesMax === events
  return { ...report, perSecond, equal, server: await serving.report() }
}

const passes = ({ equal, p99Ms }: Omit<Step, keyof Disturbed>): boolean => equal && p99Ms <= P99_MS

/** The highest rate that keeps the bound: by doubling and halving, then confirmed by the median of five runs. */
const best = async (context: BenchContext, contestant: Contestant): Promise<Best> => {
  let opened = await open(contestant)
  const { frameBytes } = opened
  const steps: Step[] = []
  const attemptOnce = async (perSecond: number): Promise<Omit<Step, keyof Disturbed>> => {
    const made = await step(opened, perSecond)
    // What a server that fell behind still owes must not weigh on the next step.
    if (!made.equal || made.p99Ms > 10 * P99_MS) {
      await opened.stop()
      opened = await open(contestant)
    }
    return made
  }
  const attempt = async (perSecond: number): Promise<Step> => {
    const made = await inPeace(
      () => attemptOnce(perSecond),
      tried => !passes(tried),
    )
    context.say(
      `  ${contestant.name}: ${show(perSecond)} events/s, p99 ${show(made.p99Ms)} ms${made.equal ? '' : ', bytes differ'}, others ${show(made.othersCores)} cores`,
    )
    return made
  }
  try {
    let low = 0
    let high = Number.POSITIVE_INFINITY
    let perSecond = contestant.guess
    for (let made = 0; made < STEPS_MAX && !(low > 0 && high / low < 1.12); made += 1) {
      const tried = await attempt(perSecond)
      steps.push(tried)
      if (passes(tried)) low = perSecond
      else high = perSecond
      perSecond = high === Number.POSITIVE_INFINITY ? low * 1.7 : low === 0 ? high / 2 : Math.sqrt(low * high)
    }
    perSecond = Math.max(low, 1)
    for (let tries = 1; ; tries += 1) {
      const confirmed: Step[] = []
      for (let run = 0; run < CONFIRM_RUNS; run += 1) confirmed.push(await attempt(perSecond))
      const p99Ms = median(confirmed.map(run => (run.equal ? run.p99Ms : Number.MAX_SAFE_INTEGER)))
      if (p99Ms <= P99_MS || tries === CONFIRM_TRIES) {
        const sideBySide: Step[] = []
        for (let run = 0; run < CONFIRM_RUNS && contestant.sideBySide; run += 1)
          sideBySide.push(await attempt(SIDE_BY_SIDE))
        return { perSecond, deliveries: perSecond * VIEWERS, p99Ms, frameBytes, steps, confirmed, sideBySide }
      }
      perSecond *= 0.88
    }
  } finally {
    await opened.stop()
  }
}

/** Shoji whole: a Runtime in its own process, WebSocket, journal on disk, projection, delivery. */
const shojiContestant = (context: BenchContext): Contestant => ({
  name: 'shoji',
  guess: 1_500,
  sideBySide: true,
  async start() {
    const place = scratch('fan-out')
    const { child: runtime, ready } = await Child.start<{ url: string; workerIds: string[] }>(
      'runtime',
      { workers: 1, textChars: STAMP_CHARS },
      { cores: SERVER_CORES },
    )
    const config = { directory: place.path, runtimes: [{ id: 'rt', url: ready.url }] }
    const { child, url } = await startShoji(context, config, SERVER_CORES)
    await child.ask('until', { entries: 1 })
    const events = `${url}/api/runtimes/rt/workers/${ready.workerIds[0] ?? ''}/events`
    await untilServed(events)
    return {
      url: events,
      until: 'event: caught_up',
      publish: async (perSecond, seconds) => {
        await child.ask('mark')
        return runtime.ask('publish', { perSecond, seconds })
      },
      ready: () => runtime.ask('begin'),
      report: () => child.ask<ShojiReport>('report'),
      async stop() {
        await child.stop()
        await runtime.stop()
        place.remove()
      },
    }
  },
})

/** One delta as Shoji sends it, with a hole where its stamp stood. */
const sampleFrame = async (contestant: Contestant): Promise<string> => {
  const serving = await contestant.start()
  try {
    const frame = await new Promise<string>((resolve, reject) => {
      let text = ''
      const stream = new RawStream(new URL(serving.url), {}, bytes => {
        const live = text.includes('event: caught_up')
        text += bytes.toString('utf8')
        if (!live && text.includes('event: caught_up'))
          serving
            .ready()
            .then(() => serving.publish(10, 0.2))
            .catch(reject)
        // The block's first frame says that it begins an item: the second is like all that follow.
        const deltas = text.split('\n\n').filter(part => part.includes('T#'))
        if (deltas[1] === undefined || !text.endsWith('\n\n')) return
        stream.socket.destroy()
        resolve(`${deltas[1]}\n\n`)
      })
    })
    return frame.replace(/T#\d+/, STAMP_HOLE)
  } finally {
    await serving.stop()
  }
}

const peerContestant = (peer: Peer, guess: number, template: string): Contestant => ({
  name: peer,
  guess,
  sideBySide: peer === 'floor',
  async start() {
    const { child, ready } = await Child.start<{ url: string }>(
      'fan-out-peers',
      { peer, template },
      { cores: SERVER_CORES },
    )
    return {
      url: ready.url,
      publish: (perSecond, seconds) => child.ask('publish', { perSecond, seconds }),
      ready: async () => undefined,
      report: async () => null,
      stop: () => child.stop(),
    }
  },
})

/** A rate that was not confirmed is the lowest that was tried: it overstates what the server can keep. */
const figureOf = ({ deliveries, p99Ms }: Best): string =>
  `${show(deliveries)} deliveries/s, p99 ${show(p99Ms)} ms${p99Ms > P99_MS ? ', over the bound' : ''}`

const versionOf = (name: string): string => {
  const manifest = readFileSync(join(ROOT, 'node_modules', name, 'package.json'), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

/** What Shoji is held to, as a multiple of a peer; due once delivery is tuned. */
const PEERS: readonly { peer: Peer; guess: number; what: string; bar: number }[] = [
  { peer: 'floor', guess: 4_000, what: 'floor: one prepared buffer a viewer and 5 ms', bar: 0.5 },
  { peer: 'res.write', guess: 200, what: 'bare res.write loop', bar: 4 },
  { peer: 'better-sse', guess: 120, what: 'better-sse', bar: 10 },
  { peer: 'hono/streaming', guess: 40, what: 'hono/streaming streamSSE', bar: 30 },
]

const NPM_PEERS: readonly Peer[] = ['better-sse', 'hono/streaming']

export const fanOut: Bench = {
  name: 'fan-out',
  async run(context) {
    const bench = 'fan-out'
    const contestant = shojiContestant(context)
    const template = await sampleFrame(contestant)
    const ours = await best(context, contestant)
    const rows: Row[] = [
      {
        bench,
        what: `Shoji: ${VIEWERS} viewers of one worker, p99 <= ${P99_MS} ms`,
        figure: figureOf(ours),
      },
    ]
    const data: Record<string, Best> = { shoji: ours }
    for (const { peer, guess, what, bar } of PEERS) {
      const found = await best(context, peerContestant(peer, guess, template))
      data[peer] = found
      const ratio = ours.deliveries / found.deliveries
      const version = NPM_PEERS.includes(peer) ? ` ${versionOf(peer.split('/')[0] ?? peer)}` : ''
      rows.push({
        bench,
        what: `${what}${version}`,
        figure: figureOf(found),
        ratio: `Shoji is ${ratio.toFixed(2)}x`,
        bar: `>= ${bar}x (later)`,
      })
    }
    const p99At = (of: Best | undefined): number => median((of?.sideBySide ?? []).map(run => run.p99Ms))
    rows.push({
      bench,
      what: `p99 at ${show(SIDE_BY_SIDE)} events/s (${show(SIDE_BY_SIDE * VIEWERS)} deliveries/s), Shoji and floor`,
      figure: `${show(p99At(ours))} ms, ${show(p99At(data.floor))} ms`,
      ratio: `${(p99At(ours) / p99At(data.floor)).toFixed(2)}x`,
    })
    for (const absent of ['Mercure', 'nchan', 'Centrifugo'])
      rows.push({ bench, what: absent, figure: 'not in this bench yet' })
    const bytes = Object.entries(data).map(([name, { frameBytes }]) => `${name} ${frameBytes}`)
    return {
      rows,
      notes: [
        `fan-out: highest rate found by steps of ${STEP_SECONDS} s, confirmed by the median p99 of ${CONFIRM_RUNS} runs; ` +
          `each viewer's bytes are checked, and the frames of one in 25 counted. Latency is from the moment an event was due. ` +
          `Bytes a frame: ${bytes.join(', ')}. ` +
          (canPin
            ? `The viewers have core ${CLIENT_CORES} for themselves; the server, and Shoji's Runtime and writer with it, core ${SERVER_CORES}.`
            : 'Processes are not pinned to cores here.'),
        'fan-out: Shoji has its journal on disk and projection on; the peers publish from memory, within their own process.' +
          disturbance(Object.values(data).flatMap(({ steps, confirmed }) => [...steps, ...confirmed])),
      ],
      data,
    }
  },
}
