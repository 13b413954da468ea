import { setTimeout as delay, setImmediate as nextTick } from 'node:timers/promises'
import type { Agent } from './agent.ts'
import { createIds } from './ids.ts'
import { scenarioOf } from './scenarios.ts'
import type { Scene, Step } from './steps.ts'

export interface ScriptedAgentOptions {
  /** Milliseconds between two events; 0: as fast as the sockets are served. */
  readonly paceMs?: number
  /** Resolves after `ms`, or rejects or resolves when the signal fires; virtual time in tests. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>
  readonly now?: () => number
  readonly random?: () => number
}

/** At pace 0, events between two turns of the event loop: short of the 256 that a socket may be behind. */
const eventsPerTurn = 64

const realWait = async (ms: number, signal: AbortSignal): Promise<void> => {
  await delay(ms, undefined, { signal }).catch(() => undefined)
}

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })

/**
 * An agent that answers with a scripted run (see `scenarioOf`), in the order and with the kinds of events
 * that a real one shows. It stops in mid-run when its signal fires.
 */
export const scriptedAgent = (options: ScriptedAgentOptions = {}): Agent => {
  const paceMs = options.paceMs ?? 0
  const wait = options.wait ?? realWait
  const now = options.now ?? Date.now
  const newId = createIds(now, options.random ?? Math.random)
  let calls = 0

  const take = async (step: Exclude<Step, { event: string }>, signal: AbortSignal): Promise<void> => {
    if ('hold' in step) await untilAborted(signal)
    else if (paceMs > 0) await wait(step.waitPaces * paceMs, signal)
  }

  return async (worker, run) => {
    const { scenario, argument } = scenarioOf(run.text)
    const scene: Scene = {
      text: run.text.trim(),
      argument,
      generation: worker.generation,
      turn: () => worker.turns,
      llmCall: () => worker.llmCalls,
      late: run.late,
      newCallId: () => {
        calls += 1
        return `toolu_${worker.id.slice(-6)}_${calls}`
      },
      newId,
      now,
    }
    let emitted = 0
    // Before the first event too: the answer to the input goes out first.
    await nextTick()
    for (const step of scenario(scene)) {
      if (run.signal.aborted) return
      if (!('event' in step)) {
        await take(step, run.signal)
        continue
      }
      worker.emit(step)
      emitted += 1
      if (paceMs > 0) await wait(paceMs, run.signal)
      else if (emitted % eventsPerTurn === 0) await nextTick()
    }
  }
}
