import { setTimeout as delay } from 'node:timers/promises'
import type { ShojiReport } from './processes/shoji.ts'
import type { ViewersReport } from './processes/viewers.ts'
import { Child } from './support/child.ts'
import { type Bench, type BenchContext, scratch, startShoji, untilServed } from './support/context.ts'
import { type Disturbed, disturbance, inPeace } from './support/others.ts'
import { maxOf, median, show } from './support/stats.ts'
import type { Row } from './support/table.ts'

const DELAYS_MS = [0, 10, 100]
const WORKERS = 200
const VIEWERS = 20
const PER_SECOND = 5_000
const SECONDS = 3
const RUNS = 5
const HEARTBEAT_MS = 250
/** A beat that comes so much later than a heartbeat after the one before it is late. */
const LATE_MS = 100
const BAR_LOOP_MS = 10

interface Figures {
  readonly server: ShojiReport
  readonly viewers: ViewersReport
}

type Run = Figures & Disturbed

const lateBy = ({ beatGapMaxMs }: ViewersReport): number => beatGapMaxMs - HEARTBEAT_MS

const measure = async (context: BenchContext, syncDelayMs: number): Promise<Run[]> => {
  const place = scratch('slow-disk')
  const { child: runtime, ready } = await Child.start<{ url: string; workerIds: string[] }>('runtime', {
    workers: WORKERS,
    textChars: 64,
  })
  const { child: shoji, url } = await startShoji(context, {
    directory: place.path,
    runtimes: [{ id: 'rt', url: ready.url }],
    heartbeatMs: HEARTBEAT_MS,
    syncDelayMs,
  })
  const { child: client } = await Child.start('viewers', {})
  const runs: Run[] = []
  try {
    await shoji.ask('until', { entries: WORKERS })
    const targets = ready.workerIds
      .slice(0, VIEWERS)
      .map(worker => ({ url: `${url}/api/runtimes/rt/workers/${worker}/events` }))
    await untilServed(targets[0]?.url ?? '')
    await client.ask('open', { targets, until: 'event: caught_up', parse: true })
    await runtime.ask('begin')
    await runtime.ask('publish', { perSecond: PER_SECOND, seconds: 1 })
    await delay(1_000)
    const once = async (): Promise<Figures> => {
      const events = PER_SECOND * SECONDS
      await client.ask('mark')
      await shoji.ask('mark')
      const durable = shoji.ask<number>('until', { entries: events })
      await runtime.ask('publish', { perSecond: PER_SECOND, seconds: SECONDS })
      await durable
      const server = await shoji.ask<ShojiReport>('report')
      await delay(2 * HEARTBEAT_MS)
      const viewers = await client.ask<ViewersReport>('report')
      const frames = events / WORKERS
      if (server.entries !== events || viewers.framesMin !== frames || viewers.framesMax !== frames)
        throw new Error(
          `${server.entries} of ${events} durable; ${viewers.framesMin} to ${viewers.framesMax} of ${frames} frames`,
        )
      return { server, viewers }
    }
    for (let run = 0; run < RUNS; run += 1)
      runs.push(
        await inPeace(
          once,
          ({ server, viewers }) => server.loopP99Ms >= BAR_LOOP_MS || lateBy(viewers) >= LATE_MS,
        ),
      )
  } finally {
    await client.stop()
    await Promise.all([shoji.stop(), runtime.stop()])
    place.remove()
  }
  return runs
}

export const slowDisk: Bench = {
  name: 'slow-disk',
  async run(context) {
    const bench = 'slow-disk'
    const rows: Row[] = []
    const data: Record<string, Run[]> = {}
    for (const syncDelayMs of DELAYS_MS) {
      const runs = await measure(context, syncDelayMs)
      data[`${syncDelayMs}ms`] = runs
      const what = `${syncDelayMs} ms a sync: `
      const loop = median(runs.map(run => run.server.loopP99Ms))
      const late = maxOf(runs.map(run => lateBy(run.viewers)))
      context.say(
        `  ${what}loop p99 ${show(loop)} ms, latest beat ${show(late)} ms, others ${show(median(runs.map(run => run.othersCores)))} cores`,
      )
      rows.push(
        {
          bench,
          what: `${what}event-loop delay p99, worst`,
          figure: `${show(loop)} ms, ${show(maxOf(runs.map(run => run.server.loopMaxMs)))} ms`,
          bar: `< ${BAR_LOOP_MS} ms`,
          met: loop < BAR_LOOP_MS,
        },
        {
          bench,
          what: `${what}beats, the latest by`,
          figure: `${show(runs.reduce((sum, run) => sum + run.viewers.beats, 0))}, ${show(late)} ms`,
          bar: `< ${LATE_MS} ms`,
          met: late < LATE_MS,
        },
        {
          bench,
          what: `${what}Runtime to viewer p50, p99; entries a commit`,
          figure: `${show(median(runs.map(run => run.viewers.p50Ms)))} ms, ${show(median(runs.map(run => run.viewers.p99Ms)))} ms; ${show(median(runs.map(run => run.server.entries / run.server.commits)))}`,
        },
      )
    }
    return {
      rows,
      notes: [
        `slow-disk: ${show(PER_SECOND)} envelopes a second of ${WORKERS} workers, ${VIEWERS} viewers, a beat every ${HEARTBEAT_MS} ms; medians of ${RUNS} runs of ${SECONDS} s, the latest beat of all runs. ` +
          `Every event was found durable once, and every viewer got each frame of its worker.${disturbance(Object.values(data).flat())}`,
      ],
      data,
    }
  },
}
