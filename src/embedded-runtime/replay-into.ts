import { setTimeout as delay } from 'node:timers/promises'
import { liveEvents, type Recording, recordedWorkers } from './recording.ts'
import type { EmbeddedWorker } from './worker.ts'

export interface ReplayOptions {
  /** 2: twice as fast as recorded; `Infinity`: without waiting. Default 1. */
  readonly speed?: number
  /** Ends the replay; the promise resolves. */
  readonly signal?: AbortSignal
  /** Which recorded worker; the first if absent. */
  readonly workerId?: string
  readonly wait?: (ms: number, signal: AbortSignal | undefined) => Promise<void>
}

const realWait = async (ms: number, signal: AbortSignal | undefined): Promise<void> => {
  await delay(ms, undefined, signal ? { signal } : {}).catch(() => undefined)
}

/** The longest pause that is kept between two events: recordings contain minutes of silence. */
const maxPauseMs = 2_000

/** Publishes a recorded worker's events as live events of `worker`, byte for byte, with the recorded pauses. */
export const replayInto = async (
  worker: EmbeddedWorker,
  recording: Recording,
  options: ReplayOptions = {},
): Promise<void> => {
  const { speed = 1, signal, wait = realWait } = options
  const from = options.workerId ?? recordedWorkers(recording)[0]
  if (from === undefined) return
  let previousMs = 0
  for (const event of liveEvents(recording, from)) {
    const pauseMs = Math.min(event.atMs - previousMs, maxPauseMs) / speed
    previousMs = event.atMs
    if (pauseMs >= 1) await wait(pauseMs, signal)
    if (signal?.aborted) return
    worker.emitJson(event.json)
  }
}
