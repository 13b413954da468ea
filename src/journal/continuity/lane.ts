import { asText, type Json } from '../../lib/json.ts'
import type { Told } from '../expand.ts'
import { createOverlap, type Overlap } from './overlap.ts'

/**
 * What follows a fresh snapshot is compared by lanes: one for each scope and kind of block that `in_flight`
 * shows. A lane is in one of these states:
 *
 * * `untouched`: nothing of it is held
 * * `holding`: pieces are held, and it is not known yet whether they are overlap
 * * `following`: what was told is overlap, and the next piece is if it stands where the one before ended
 *
 * |             | piece     | done     | start     | begin    | end      | close   |
 * |-------------|-----------|----------|-----------|----------|----------|---------|
 * | `untouched` | `compare` | `finish` | `compare` | `repeat` | `settle` | `drop`  |
 * | `holding`   | `compare` | `finish` | `settle`  | `settle` | `settle` | `drop`  |
 * | `following` | `follow`  | `finish` | `settle`  | `settle` | `settle` | `drop`  |
 *
 * * `piece` a delta, `done` a `…_done`, `start` a `thinking_start`; `begin` the beginning of a turn or a model
 *   call, `end` any other event that ends blocks; `close` an event that replaces the list, or the end of the
 *   connection
 * * `compare`: held, until the comparison with the text of the finished block, then with that of the open
 *   one, has a verdict. The start of an open block of which nothing was told yet is overlap at once.
 * * `follow`: overlap if it stands there, else as `compare`
 * * `finish`: the `…_done` of the finished block is overlap, with all that is held. The one of the open block
 *   heals: what is held is overlap, the done is not. Without an open block it is another block's, and what
 *   is held is new.
 * * `repeat`: if nothing of any lane of the scope was told and one of the blocks is open, this beginning is
 *   overlap: the stream can't begin a turn in an open block, so it is the one before it. Else `settle`.
 * * `settle`: what is held gets its verdict as it stands, and the lane is over; `drop`: it is overlap
 *
 * Where the open block has its verdict, all lanes of the scope are over: what stands before it in the stream
 * has been told.
 */
type LaneState = 'untouched' | 'holding' | 'following'
export type What = 'piece' | 'done' | 'start' | 'begin' | 'end' | 'close'
type Action = 'compare' | 'follow' | 'finish' | 'repeat' | 'settle' | 'drop'

const HELD = { begin: 'settle', end: 'settle', close: 'drop' } as const

export const ON: Record<LaneState, Record<What, Action>> = {
  untouched: { ...HELD, piece: 'compare', done: 'finish', start: 'compare', begin: 'repeat' },
  holding: { ...HELD, piece: 'compare', done: 'finish', start: 'settle' },
  following: { ...HELD, piece: 'follow', done: 'finish', start: 'settle' },
}

export type Kind = 'text' | 'thinking'
type Which = 'finished' | 'open'

export interface Held<E extends Told> {
  readonly event: E
  readonly sinceMs: number
  /** Undefined until it is known. */
  overlap: boolean | undefined
  /** What it adds to its block. */
  piece: string
}

export interface Lane<E extends Told> {
  /** Text of the kind's last block that `in_flight` shows finished, while its `…_done` may come again. */
  finished: string | undefined
  /** All pieces of the finished block came again, or none can any more. */
  past: boolean
  /** Text of the open block. */
  open: string | undefined
  comparison: { readonly of: Which; readonly overlap: Overlap } | undefined
  follows: { readonly of: Which; readonly place: number } | undefined
  /** Something of it was told since the snapshot. */
  heard: boolean
  held: Held<E>[]
}

/** The lanes that are not over, by scope and kind. A scope without lanes is not in it. */
export type Lanes<E extends Told> = Map<string, Map<Kind, Lane<E>>>

/** Where a lane is. */
export interface Place<E extends Told> {
  readonly lanes: Lanes<E>
  readonly scope: string
  readonly kind: Kind
  readonly lane: Lane<E>
}

export const newLane = <E extends Told>(): Lane<E> => ({
  finished: undefined,
  past: false,
  open: undefined,
  comparison: undefined,
  follows: undefined,
  heard: false,
  held: [],
})

export const stateOf = (lane: Lane<Told>): LaneState => {
  if (lane.follows !== undefined) return 'following'
  return lane.held.length > 0 ? 'holding' : 'untouched'
}

/** Takes a piece, a done or a start of the lane's kind. */
export function touch<E extends Told>(at: Place<E>, held: Held<E>, what: What, data: Json): void {
  const { lane } = at
  const action = ON[stateOf(lane)][what]
  const first = !lane.heard
  if (what !== 'start') lane.heard = true
  if (action === 'compare' && what === 'start' && lane.open !== undefined && first) held.overlap = true
  else if (action === 'compare') compare(at, held, what === 'piece' ? asText(data.text) : '')
  else if (action === 'follow') follow(at, held, asText(data.text))
  else if (action === 'finish') finish(at, held, asText(data.text))
  else {
    held.overlap = false
    settle(at, false)
    leave(at)
  }
}

function compare<E extends Told>(at: Place<E>, held: Held<E>, piece: string): void {
  const { lane } = at
  held.piece = piece
  lane.held.push(held)
  lane.comparison ??= nextComparison(lane)
  const verdict = lane.comparison?.overlap.take(piece) ?? 0
  if (verdict !== 'hold') conclude(at, verdict)
}

/** The finished block was told before the open one. */
function nextComparison(lane: Lane<Told>): Lane<Told>['comparison'] {
  if (lane.finished !== undefined && !lane.past)
    return { of: 'finished', overlap: createOverlap(lane.finished) }
  return lane.open === undefined ? undefined : { of: 'open', overlap: createOverlap(lane.open) }
}

/** The first `count` pieces that are held are overlap; the others may be of the open block. */
function conclude<E extends Told>(at: Place<E>, count: number): void {
  const { lane } = at
  const rest = lane.held.splice(0)
  for (const held of rest.splice(0, count)) held.overlap = true
  const of = lane.comparison?.of
  lane.comparison = undefined
  if (of === 'finished') {
    lane.past = true
    // All of it came again, and its done may too.
    if (rest.length === 0) return
    lane.finished = undefined
    if (lane.open !== undefined) {
      compareAgain(at, rest)
      return
    }
  }
  for (const held of rest) held.overlap = false
  leave(at)
}

function compareAgain<E extends Told>(at: Place<E>, pieces: readonly Held<E>[]): void {
  for (const held of pieces) {
    if (at.lanes.get(at.scope)?.get(at.kind) === at.lane) compare(at, held, held.piece)
    else held.overlap = false
  }
}

function follow<E extends Told>(at: Place<E>, held: Held<E>, piece: string): void {
  const { lane } = at
  const { of, place } = lane.follows ?? { of: 'open', place: 0 }
  const text = lane[of] ?? ''
  const end = place + piece.length
  const stands = text.startsWith(piece, place)
  lane.follows = stands && end < text.length ? { of, place: end } : undefined
  if (stands) held.overlap = true
  if (lane.follows !== undefined) return
  if (of === 'open') {
    held.overlap = stands
    leave(at)
  } else if (!stands) {
    lane.finished = undefined
    compare(at, held, piece)
  }
}

function finish<E extends Told>(at: Place<E>, held: Held<E>, text: string): void {
  const { lane } = at
  const told = lane.finished
  const ofOpen = lane.open !== undefined && lane.open !== '' && text.startsWith(lane.open)
  const repeats = told !== undefined && !ofOpen && (text === '' ? told === '' : told.endsWith(text))
  for (const before of lane.held.splice(0)) before.overlap = repeats || lane.open !== undefined
  held.overlap = repeats
  lane.comparison = undefined
  lane.follows = undefined
  lane.finished = undefined
  if (!repeats || lane.open === undefined) leave(at)
}

/** The verdict on what is held of a lane as it stands. `many`: there are too many pieces to hold more. */
export function settle<E extends Told>(at: Place<E>, many: boolean): void {
  const { lane } = at
  while (lane.comparison !== undefined) {
    const { of, overlap } = lane.comparison
    const verdict = overlap.settle(many)
    if (verdict.goesOn !== undefined) {
      for (const held of lane.held.splice(0)) held.overlap = true
      lane.comparison = undefined
      lane.past = true
      lane.follows = { of, place: verdict.goesOn }
    } else conclude(at, verdict.overlap)
  }
}

function leave<E extends Told>({ lanes, scope, kind, lane }: Place<E>): void {
  const of = lanes.get(scope)
  if (of === undefined) return
  if (lane.open !== undefined) {
    endScope(lanes, scope)
    return
  }
  of.delete(kind)
  if (of.size === 0) lanes.delete(scope)
}

/** Settles every lane of a scope; none is left. */
export function endScope<E extends Told>(lanes: Lanes<E>, scope: string): void {
  // A lane that is left ends its scope again; its own pieces have their verdict by then.
  for (const [kind, lane] of [...(lanes.get(scope) ?? [])]) settle({ lanes, scope, kind, lane }, false)
  lanes.delete(scope)
}

/** Drops what is held of every lane; none is left. */
export function dropAll<E extends Told>(lanes: Lanes<E>): void {
  for (const scope of lanes.values())
    for (const lane of scope.values()) for (const held of lane.held.splice(0)) held.overlap = true
  lanes.clear()
}
