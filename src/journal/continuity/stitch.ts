import { asRecord, asText, type Json } from '../../lib/json.ts'
import type { Told } from '../expand.ts'
import { type OpenState, scoped } from '../open-state.ts'
import { type FlatEvent, flatten, replacesList } from '../step.ts'
import {
  dropAll,
  endScope,
  type Held,
  type Kind,
  type Lane,
  type Lanes,
  newLane,
  ON,
  settle,
  stateOf,
  touch,
  type What,
} from './lane.ts'

/**
 * After a fresh snapshot the stream may tell again what stands in the snapshot's `in_flight`. A stitch holds
 * what follows until it is known which of it is overlap, and gives everything back in the order of the
 * stream: what is not of a block in flight is not overlap, and waits while anything before it is held. How
 * the blocks are compared: `lane.ts`, `overlap.ts`.
 *
 * Where the upstream loses nothing and tells the overlap within the time limit, none of it is taken for new.
 * A new piece is taken for overlap only if the text in the snapshot happens to end with the pieces up to it
 * (as text of few different characters does), by two witnesses (`overlap.ts`), or if it is still held where
 * the block's `…_done` comes. What was left out then comes with that done; without one it stays out.
 *
 * Work for one event: a few walks over the text in flight; for all of them together `overlap.ts` says.
 */
export interface Stitch<E extends Told = Told> {
  readonly lanes: Lanes<E>
  /** What is held, in the order of the stream. */
  readonly held: Held<E>[]
}

/** An event that may be taken now. Overlap is stored, but told to nobody and folded into nothing. */
export interface Offered<E extends Told = Told> {
  readonly event: E
  readonly overlap: boolean
}

/** How long and how many events are held, what waits behind a block's pieces included. */
const STITCH_LIMITS = { heldMs: 1_000, held: 256 } as const

/** Events that end what is open in their scope, as `step` has it. So does a `status` that is not running. */
const BLOCK_ENDS: ReadonlyMap<string, 'begin' | 'end'> = new Map([
  ['turn_start', 'begin'],
  ['llm_call_start', 'begin'],
  ['llm_call_end', 'end'],
  ['llm_retry', 'end'],
  ['llm_continuation', 'end'],
  ['turn_end', 'end'],
  ['run_end', 'end'],
  ['error', 'end'],
  ['shutdown', 'end'],
])

/**
 * Opens a stitch on the list that a fresh snapshot is expanded to. Null if no text is in flight. Keeps the
 * texts in flight: of each kind and scope the open block's, and the last finished one's.
 */
export function openStitch<E extends Told = Told>(snapshotList: readonly Told[]): Stitch<E> | null {
  const lanes: Lanes<E> = new Map()
  const running = new Set<string>()
  for (const told of snapshotList) {
    const { event, data, scope } = flatten(told.event, told.data)
    // What is in flight stands behind the scope's status, texts of the log before it.
    if (event === 'status' && data.status === 'running') running.add(scope)
    const kind = kindOf(event)
    if (kind === undefined || event === 'thinking_start' || !running.has(scope)) continue
    const of = lanes.get(scope) ?? new Map<Kind, Lane<E>>()
    const lane = of.get(kind) ?? newLane<E>()
    lanes.set(scope, of.set(kind, lane))
    if (event.endsWith('_done')) lane.finished = asText(data.text)
    else lane.open = asText(data.text)
  }
  return lanes.size === 0 ? null : { lanes, held: [] }
}

/** While something of this scope may be overlap, its signs of loss do not count. */
export const inWindow = (stitch: Stitch, scope: string): boolean => stitch.lanes.has(scope)

/** Nothing is held and nothing can be overlap any more: the stitch can be forgotten. */
export const isOver = (stitch: Stitch): boolean => stitch.lanes.size === 0 && stitch.held.length === 0

/** When `expire` is to be called, by the clock that `offer` is given; null while nothing is held. */
export const dueAtMs = (stitch: Stitch): number | null => {
  const [first] = stitch.held
  return first === undefined ? null : first.sinceMs + STITCH_LIMITS.heldMs
}

/**
 * Takes the stream's next event and returns what can be taken now, in the order of the stream; it may be
 * nothing. Keeps both limits by itself: `expire` is for a stream that falls silent.
 */
export function offer<E extends Told>(stitch: Stitch<E>, event: E, nowMs: number): Offered<E>[] {
  const due = dueAtMs(stitch)
  const out = due !== null && nowMs >= due ? expire(stitch) : []
  const held: Held<E> = { event, sinceMs: nowMs, overlap: undefined, piece: '' }
  stitch.held.push(held)
  decide(stitch.lanes, held, flatten(event.event, event.data))
  out.push(...release(stitch))
  if (stitch.held.length > STITCH_LIMITS.held) out.push(...settleAll(stitch, true))
  return out
}

/** The time has run out: gives the verdict on everything that is held, and returns it. */
export const expire = <E extends Told>(stitch: Stitch<E>): Offered<E>[] => settleAll(stitch, false)

function settleAll<E extends Told>(stitch: Stitch<E>, many: boolean): Offered<E>[] {
  const { lanes } = stitch
  for (const [scope, of] of [...lanes])
    for (const [kind, lane] of [...of]) settle({ lanes, scope, kind, lane }, many)
  return release(stitch)
}

/** A reset, or the end of the connection: what is held of blocks is overlap. The stitch is over. */
export function close<E extends Told>(stitch: Stitch<E>): Offered<E>[] {
  dropAll(stitch.lanes)
  return release(stitch)
}

/**
 * A result of a call that has one is the same result told again, in a stitch or long after one. To be asked
 * when the event is taken, of the state before it.
 */
export function repeatsResult(state: OpenState, { event, data, scope }: FlatEvent): boolean {
  if (event !== 'tool_result') return false
  return state.calls.get(scoped(scope, asText(data.id)))?.seen.includes('tool_result') === true
}

function release<E extends Told>(stitch: Stitch<E>): Offered<E>[] {
  const unknown = stitch.held.findIndex(held => held.overlap === undefined)
  const known = stitch.held.splice(0, unknown < 0 ? stitch.held.length : unknown)
  return known.map(({ event, overlap }) => ({ event, overlap: overlap === true }))
}

const kindOf = (event: string): Kind | undefined => {
  if (event === 'text_delta' || event === 'text_done') return 'text'
  if (event === 'thinking_start' || event === 'thinking_delta' || event === 'thinking_done') return 'thinking'
  return undefined
}

const whatOf = (event: string, data: Json): What | undefined => {
  if (event === 'status') return data.status === 'running' ? undefined : 'end'
  if (event === 'thinking_start') return 'start'
  if (kindOf(event) === undefined) return BLOCK_ENDS.get(event)
  return event.endsWith('_done') ? 'done' : 'piece'
}

function decide<E extends Told>(lanes: Lanes<E>, held: Held<E>, flat: FlatEvent): void {
  const { event, data, scope } = flat
  const kind = kindOf(event)
  const what = whatOf(event, data)
  const of = lanes.get(scope)
  const lane = kind === undefined ? undefined : of?.get(kind)
  if (kind !== undefined && lane !== undefined && what !== undefined) {
    touch({ lanes, scope, kind, lane }, held, what, data)
    return
  }
  held.overlap = what === 'begin' && of !== undefined && repeatsBeginning([...of.values()])
  if (scope === '' && replacesList(event, data)) dropAll(lanes)
  else if (event === 'internal_worker_removed') endScope(lanes, asText(asRecord(data.worker).session_id))
  else if (kind === undefined && what !== undefined && !held.overlap) endScope(lanes, scope)
}

const repeatsBeginning = (lanes: readonly Lane<Told>[]): boolean =>
  lanes.some(lane => lane.open !== undefined) &&
  lanes.every(lane => !lane.heard && ON[stateOf(lane)].begin === 'repeat')
