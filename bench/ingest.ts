import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { FloorReport } from './processes/ingest-floor.ts'
import type { ShojiReport } from './processes/shoji.ts'
import { Child } from './support/child.ts'
import { type Bench, scratch, startShoji } from './support/context.ts'
import { type Disturbed, disturbance, inPeace } from './support/others.ts'
import { nowUs } from './support/stamp.ts'
import { maxOf, median, show } from './support/stats.ts'

const WORKERS = 200
const EVENTS_PER_WORKER = 400
const WARMUP_PER_WORKER = 100
const RUNS = 5
const BAR_PER_SECOND = 20_000
const BAR_OF_FLOOR = 0.5

interface Published {
  readonly events: number
  readonly bytes: number
  readonly waits: number
  readonly elapsedMs: number
}

interface Run {
  readonly perSecond: number
  readonly published: Published
  readonly senderShare: number
}

const startPublisher = async () => {
  const { child, ready } = await Child.start<{ url: string; workerIds: string[] }>('bench-publisher', {
    generation: 'events-ws',
    workers: WORKERS,
  })
  const publish = (eventsPerWorker: number) =>
    child.tell<Published>({ publish: { eventsPerWorker, polite: true } }, 'published')
  return { child, ...ready, publish }
}

type Publisher = Awaited<ReturnType<typeof startPublisher>>

/** Publishes and waits until the last of it is durable: first event sent to last commit. */
const measure = async (
  publisher: Publisher,
  receiver: Child,
  events: number,
  expected: number,
): Promise<Run> => {
  await receiver.ask('mark')
  const durable = receiver.ask<number>('until', { entries: expected })
  const cpu = publisher.child.cpuMs()
  const started = nowUs()
  const published = await publisher.publish(events)
  const senderCpuMs = publisher.child.cpuMs() - cpu
  const wallMs = ((await durable) - started) / 1000
  if (published.events !== expected)
    throw new Error(`${published.events} events published, ${expected} expected`)
  return { perSecond: (published.events * 1000) / wallMs, published, senderShare: senderCpuMs / wallMs }
}

/** Opening and ending of a run (3 and 5 events), a `text_done` for each 256 deltas and one for the rest. */
const eventsOf = (deltas: number): number => WORKERS * (8 + deltas + Math.ceil(deltas / 256))

export const ingest: Bench = {
  name: 'ingest',
  async run(context) {
    const place = scratch('ingest')
    const floorDirectory = join(place.path, 'floor')
    mkdirSync(floorDirectory, { recursive: true })
    const ours = await startPublisher()
    const theirs = await startPublisher()
    const shoji = await startShoji(context, {
      directory: join(place.path, 'shoji'),
      runtimes: [{ id: 'rt', url: ours.url }],
    })
    await shoji.child.ask('until', { entries: WORKERS })
    const { child: floor } = await Child.start('ingest-floor', {
      directory: floorDirectory,
      url: theirs.url,
      workerIds: theirs.workerIds,
    })
    const shojiRuns: (Run & ShojiReport & Disturbed)[] = []
    const floorRuns: (Run & FloorReport)[] = []
    try {
      for (let run = -1; run < RUNS; run += 1) {
        const deltas = run < 0 ? WARMUP_PER_WORKER : EVENTS_PER_WORKER
        const expected = eventsOf(deltas)
        const ofShoji = await inPeace(
          () => measure(ours, shoji.child, deltas, expected),
          () => false,
        )
        const report = await shoji.child.ask<ShojiReport>('report')
        const ofFloor = await measure(theirs, floor, deltas, expected)
        const floorReport = await floor.ask<FloorReport>('report')
        if (report.entries !== expected || report.repeated > 0)
          throw new Error(`${report.entries} entries durable, ${report.repeated} repeated, of ${expected}`)
        context.say(`  run ${run + 1}: ${show(ofShoji.perSecond)}/s, floor ${show(ofFloor.perSecond)}/s`)
        if (run < 0) continue
        shojiRuns.push({ ...ofShoji, ...report })
        floorRuns.push({ ...ofFloor, ...floorReport })
      }
    } finally {
      await Promise.all([shoji.child.stop(), floor.stop(), ours.child.close(), theirs.child.close()])
      place.remove()
    }
    const perSecond = median(shojiRuns.map(run => run.perSecond))
    const floorPerSecond = median(floorRuns.map(run => run.perSecond))
    const ratio = median(shojiRuns.map((run, i) => run.perSecond / (floorRuns[i]?.perSecond ?? Number.NaN)))
    const of = (pick: (run: Run & ShojiReport) => number): number => median(shojiRuns.map(pick))
    const bench = 'ingest'
    return {
      rows: [
        {
          bench,
          what: `durable envelopes a second, ${WORKERS} workers`,
          figure: `${show(perSecond)}/s`,
          bar: `>= ${show(BAR_PER_SECOND)}/s`,
          met: perSecond >= BAR_PER_SECOND,
        },
        {
          bench,
          what: 'beside the floor (ws, JSON.parse, batched insert)',
          figure: `${show(floorPerSecond)}/s`,
          ratio: `${ratio.toFixed(2)} of floor`,
          bar: `>= ${BAR_OF_FLOOR}`,
          met: ratio >= BAR_OF_FLOOR,
        },
        {
          bench,
          what: 'entries a commit (floor)',
          figure: `${show(of(run => run.entries / run.commits))} (${show(median(floorRuns.map(run => run.entries / run.commits)))})`,
        },
        {
          bench,
          what: 'event-loop delay p99, worst',
          figure: `${show(of(run => run.loopP99Ms))} ms, ${show(maxOf(shojiRuns.map(run => run.loopMaxMs)))} ms`,
        },
        {
          bench,
          what: 'cores: sender (at the floor), Shoji; main thread busy',
          figure: `${of(run => run.senderShare).toFixed(2)} (${median(floorRuns.map(run => run.senderShare)).toFixed(2)}), ${of(run => run.cpuMs / run.wallMs).toFixed(2)}; ${of(run => run.mainBusy).toFixed(2)}`,
        },
      ],
      notes: [
        `ingest: median of ${RUNS} runs of ${eventsOf(EVENTS_PER_WORKER)} events each, floor and Shoji in turn; every event was found durable once. ` +
          `Ratio: median of the runs' own ratios. The sender waits while any of its sockets stands still.${disturbance(shojiRuns)}`,
      ],
      data: { shojiRuns, floorRuns },
    }
  },
}
