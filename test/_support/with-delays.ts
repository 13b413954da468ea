import type { Journal } from '../../src/journal/journal.ts'

/** A seeded generator of numbers from 0 to below 1 (mulberry32): a failing run can be repeated. */
export const seededRandom = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

/** Some turns of the event loop, or none: enough for commits and other callers to come between. */
export const pause = async (random: () => number): Promise<void> => {
  const turns = random() < 0.3 ? 0 : Math.floor(random() * 4)
  for (let i = 0; i < turns; i++) await new Promise<void>(resolve => setImmediate(resolve))
  if (random() < 0.05) await new Promise<void>(resolve => setTimeout(resolve, 1 + random() * 5))
}

const SYNCHRONOUS = new Set<string | symbol>(['append', 'onCommit', 'onHealth'])

/** The same journal as one across a network would be: time passes before and after each asynchronous call. */
export const withDelays = <J extends Journal>(journal: J, random: () => number): J =>
  new Proxy(journal, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function' || SYNCHRONOUS.has(name)) return value
      return async (...args: unknown[]) => {
        await pause(random)
        try {
          return await Reflect.apply(value, target, args)
        } finally {
          await pause(random)
        }
      }
    },
  })
