import { performance } from 'node:perf_hooks'
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { type RuntimeEvent, status, usage } from './events.ts'
import type { EmbeddedWorker } from './worker.ts'

export interface PublishOptions {
  readonly eventsPerWorker: number
  /** Events a second of all workers together; absent: as fast as the sockets take them. */
  readonly eventsPerSecond?: number
  /** Bytes of each delta's text. */
  readonly textBytes?: number
  /** After so many deltas a worker ends its block (`text_done`), so that nothing grows without bound; 0: never. */
  readonly deltasPerBlock?: number
  /** So many deltas of one worker in a row, and so fewer writes; must divide `eventsPerWorker`. Default 1. */
  readonly deltasPerBurst?: number
  /** Opens a run before and ends it after; default true. */
  readonly asRun?: boolean
  /** Waits while any socket stands still, so that none is overrun; else it publishes on. */
  readonly polite?: boolean
  readonly signal?: AbortSignal
}

export interface Published {
  readonly deltas: number
  readonly events: number
  readonly bytes: number
  readonly elapsedMs: number
  /** How often it waited for a socket. */
  readonly waits: number
}

const opening: readonly RuntimeEvent[] = [
  status('running'),
  { event: 'turn_start', data: { turn: 0 } },
  { event: 'llm_call_start', data: { llm_call: 0 } },
]

const ending: readonly RuntimeEvent[] = [
  usage(1200, 42),
  { event: 'llm_call_end', data: { llm_call: 0 } },
  { event: 'turn_end', data: { turn: 0, result: 'finished' } },
  { event: 'run_end', data: { result: 'finished' } },
  status('idle'),
]

/** Events between two looks at the sockets: half of what may wait for one of them (R65). */
const eventsPerLook = 128

const text = (bytes: number, sequence: number): string => {
  const head = `${sequence} `
  return head.length >= bytes ? head : head + 'x'.repeat(bytes - head.length)
}

/**
 * Publishes `text_delta` events of all workers in turn, each text beginning with its number. Resolves
 * when all are published or the signal fired. Rejects with a `RangeError` if bursts do not come out even.
 */
export const publish = async (
  workers: readonly EmbeddedWorker[],
  options: PublishOptions,
): Promise<Published> => {
  const { eventsPerWorker, eventsPerSecond, textBytes = 64, deltasPerBlock = 256 } = options
  const { asRun = true, polite = true, deltasPerBurst = 1, signal } = options
  if (eventsPerWorker % deltasPerBurst !== 0)
    throw new RangeError('deltasPerBurst must divide eventsPerWorker')
  const total = eventsPerWorker * workers.length
  const started = performance.now()
  const blocks = workers.map(() => '')
  let deltas = 0
  let events = 0
  let bytes = 0
  let waits = 0

  const emitOne = (index: number, sequence: number): void => {
    const worker = workers[index]
    if (!worker) return
    const delta = text(textBytes, sequence)
    worker.emit({ event: 'text_delta', data: { text: delta } })
    deltas += 1
    events += 1
    bytes += delta.length
    if (deltasPerBlock === 0) return
    blocks[index] += delta
    if ((sequence + 1) % deltasPerBlock !== 0) return
    worker.emit({ event: 'text_done', data: { text: blocks[index] ?? '' } })
    blocks[index] = ''
    events += 1
  }

  const due = (): number =>
    eventsPerSecond === undefined
      ? total
      : Math.min(total, Math.floor(((performance.now() - started) * eventsPerSecond) / 1000))

  const drained = async (): Promise<void> => {
    while (polite && signal?.aborted !== true && workers.some(worker => worker.waiting)) {
      waits += 1
      // It gives its core away: whom it waits for may need it.
      await delay(1)
    }
  }

  const ofEach = async (list: readonly RuntimeEvent[]): Promise<void> => {
    for (const worker of asRun ? workers : []) {
      await drained()
      for (const event of list) worker.emit(event)
      events += list.length
    }
  }

  await ofEach(opening)
  while (deltas < total && signal?.aborted !== true) {
    await drained()
    const until = Math.min(due(), deltas + eventsPerLook)
    if (until <= deltas) {
      await delay(1)
      continue
    }
    while (deltas < until) {
      const burst = Math.floor(deltas / deltasPerBurst)
      const round = Math.floor(burst / workers.length)
      emitOne(burst % workers.length, round * deltasPerBurst + (deltas % deltasPerBurst))
    }
    await nextTurn()
  }
  for (const [index, worker] of workers.entries()) {
    if (blocks[index] === '') continue
    await drained()
    worker.emit({ event: 'text_done', data: { text: blocks[index] ?? '' } })
    events += 1
  }
  await ofEach(ending)
  return { deltas, events, bytes, waits, elapsedMs: performance.now() - started }
}
