import type { Json } from '../lib/json.ts'
import { type Context, compareKeys, type UnsaidItem } from './entry.ts'
import { LIMITS, type OpenState } from './open-state.ts'

interface Told {
  /** The worker's own event, by the name its class is known by. */
  readonly name: string
  readonly data: Json
}

/**
 * Keeps the items of a run since its first user message, since `run_end rolled_back` takes them all back: the
 * log forgets the input (R26). Only a run without output is rolled back, so few are kept; what does not fit
 * stays on screen until the next list. Returns what an event takes back.
 */
export function noteRunItems(
  state: OpenState,
  { name, data }: Told,
  context: Context,
): readonly UnsaidItem[] | undefined {
  if (name === 'user_message') state.run ??= []
  const { run } = state
  if (run == null) return undefined
  if (name === 'run_end' || name === 'shutdown' || (name === 'status' && data.status !== 'running')) {
    state.run = null
    return name === 'run_end' && data.result === 'rolled_back' && run.length > 0 ? run : undefined
  }
  const { item, seen = [], tool } = context
  if (item === undefined) return undefined
  const index = run.findIndex(({ key }) => compareKeys(key, item) === 0)
  const touched = { key: item, seen: [...seen, name], ...(tool !== undefined && { tool }) }
  if (index >= 0) state.run = run.with(index, touched)
  // An item that began before the run is not the run's.
  else if (seen.length === 0 && run.length < LIMITS.runItems) state.run = [...run, touched]
  return undefined
}
