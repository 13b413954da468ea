import { asRecord, asText, type Json } from '../../lib/json.ts'
import type { Context } from '../entry.ts'
import { LIMITS, type OpenState } from '../open-state.ts'
import type { FlatEvent } from '../step.ts'

/**
 * Signs that the upstream lost events before they were numbered (R20): nothing else tells of it, and each
 * sign asks for a resync.
 *
 * | event                             | is a sign                                                           |
 * |-----------------------------------|---------------------------------------------------------------------|
 * | `text_done`, `thinking_done`      | `done_differs`: not the sum of the deltas                           |
 * | `thinking_delta`, call arguments  | `delta_without_start`: the first of a block that was not begun      |
 * | `tool_result`                     | `result_without_call`: its call was never told                      |
 * | `turn_start`, `run_end`           | `call_without_result`: a whole call is left, and nothing explains it|
 * | `turn_end`, `turn_start`,`run_end`| `block_without_end`: a block had no done, and nothing explains it   |
 *
 * What explains both: an `error` (a cancel is one), `llm_retry`, `llm_continuation`, a `run_end` that is
 * `paused` or `rolled_back`, a `status` that is not running, a `shutdown`; until the next `turn_start`.
 *
 * | a block of this kind and scope is | delta      | done                 | any other end  |
 * |-----------------------------------|------------|----------------------|----------------|
 * | none                              | `summed`   | compared with nothing| –              |
 * | `summed`                          | `summed`   | compared; none       | without an end |
 * | `unknown`                         | `unknown`  | none                 | without an end |
 *
 * A block is `unknown` that was open before the first event noted here, or of which any came excused: within
 * the window of a stitch, where deltas are missing that stand in the snapshot. Arguments are not compared:
 * their done is written anew (R29).
 *
 * Bounded: a length and 64 bits for each block that is open, at most `LIMITS.scopes` scopes. Nothing of it
 * need be stored: begun anew from the open state, it knows less for one block only.
 */
export interface Loss {
  readonly scopes: Map<string, ScopeLoss>
}

export type LossSign =
  | 'done_differs'
  | 'delta_without_start'
  | 'result_without_call'
  | 'call_without_result'
  | 'block_without_end'

type Kind = 'text' | 'thinking'

interface ScopeLoss {
  readonly blocks: Map<Kind, Sum | 'unknown'>
  /** A block ended without its done since the turn began. */
  unended: boolean
  /** What explains that came since the turn began. */
  explained: boolean
}

/** Length and hash of a text that is told in pieces; the pieces do not show in it. */
interface Sum {
  readonly length: number
  readonly a: number
  readonly b: number
}

const NOTHING: Sum = { length: 0, a: 0x9e3779b9, b: 0x85ebca6b }

const TURN_ENDS: ReadonlySet<string> = new Set(['turn_end', 'turn_start', 'run_end'])
const CALLS_END: ReadonlySet<string> = new Set(['turn_start', 'run_end'])
const EXPLAINS: ReadonlySet<string> = new Set(['error', 'llm_retry', 'llm_continuation', 'shutdown'])

/** Begins at a state of the stream: what is open in it was not noted from its beginning. */
export function openLoss(state: OpenState): Loss {
  const scopes = new Map<string, ScopeLoss>()
  for (const [id, { text, thinking }] of state.scopes) {
    const blocks = new Map<Kind, Sum | 'unknown'>()
    if (text !== undefined) blocks.set('text', 'unknown')
    if (thinking !== undefined) blocks.set('thinking', 'unknown')
    if (blocks.size > 0) scopes.set(id, { blocks, unended: false, explained: false })
  }
  return { scopes }
}

/**
 * Takes an event that is folded into the stream, with the context that `step` resolved, and says what it is a
 * sign of. Texts must be whole: an event from which a class was removed before is not to be taken. Behind an
 * event that replaces the list, `openLoss` begins anew. `excused`: the event's scope is in a stitch's window.
 */
export function noteLoss(loss: Loss, flat: FlatEvent, context: Context, excused: boolean): LossSign[] {
  const { event, data } = flat
  if (event === 'internal_worker_removed') {
    loss.scopes.delete(asText(asRecord(data.worker).session_id))
    return []
  }
  const scope = scopeOf(loss, flat.scope)
  const signs = [
    ...(note(scope, flat, context, excused) ? (['done_differs'] as const) : []),
    ...(lacksBeginning(event, context) ?? []),
    ...ends(scope, flat, context),
  ]
  return excused ? [] : signs
}

/** Past the limit the oldest goes: a block that is open in it counts as begun anew. */
function scopeOf(loss: Loss, id: string): ScopeLoss {
  const known = loss.scopes.get(id)
  if (known !== undefined) return known
  const scope: ScopeLoss = { blocks: new Map(), unended: false, explained: false }
  loss.scopes.set(id, scope)
  if (loss.scopes.size > LIMITS.scopes) loss.scopes.delete(loss.scopes.keys().next().value!)
  return scope
}

/** Sums a block up. True if its done differs from the sum. */
function note(
  { blocks }: ScopeLoss,
  { event, data }: FlatEvent,
  context: Context,
  excused: boolean,
): boolean {
  const kind = context.blockKind
  if (kind !== 'text' && kind !== 'thinking') return false
  const begins = context.seen?.length === 0
  const before = begins ? NOTHING : (blocks.get(kind) ?? 'unknown')
  if (event === 'thinking_start') blocks.set(kind, excused ? 'unknown' : NOTHING)
  else if (event.endsWith('_delta'))
    blocks.set(kind, excused || before === 'unknown' ? 'unknown' : add(before, asText(data.text)))
  else {
    blocks.delete(kind)
    return before !== 'unknown' && !sameSum(before, add(NOTHING, asText(data.text)))
  }
  return false
}

function lacksBeginning(event: string, { seen }: Context): LossSign[] | undefined {
  if (seen === undefined || seen.length > 0) return undefined
  if (event === 'thinking_delta' || event === 'tool_call_args_delta') return ['delta_without_start']
  return event === 'tool_result' ? ['result_without_call'] : undefined
}

function ends(scope: ScopeLoss, { event, data }: FlatEvent, context: Context): LossSign[] {
  const ended = context.ends ?? []
  for (const { kind } of ended) {
    if (kind !== 'text' && kind !== 'thinking') continue
    scope.unended = true
    // A start that ends the block before it has begun its own by now.
    if (event !== 'thinking_start') scope.blocks.delete(kind)
  }
  if (explains(event, data)) scope.explained = true
  if (!TURN_ENDS.has(event)) return []
  const signs: LossSign[] = []
  if (scope.unended && !scope.explained) signs.push('block_without_end')
  scope.unended = false
  const missing = ended.some(
    ({ kind, seen }) => kind === 'call' && seen.includes('tool_call_done') && !seen.includes('tool_result'),
  )
  if (CALLS_END.has(event) && missing && !scope.explained) signs.push('call_without_result')
  if (event === 'turn_start') scope.explained = false
  return signs
}

function explains(event: string, data: Json): boolean {
  if (event === 'status') return data.status !== 'running'
  if (event === 'run_end') return data.result === 'paused' || data.result === 'rolled_back'
  return EXPLAINS.has(event)
}

function add({ length, a, b }: Sum, text: string): Sum {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    a = Math.imul(a ^ unit, 0x9e3779b1)
    a ^= a >>> 15
    b = Math.imul(b ^ unit, 0x85ebca77)
    b ^= b >>> 13
  }
  return { length: length + text.length, a, b }
}

const sameSum = (one: Sum, other: Sum): boolean =>
  one.length === other.length && one.a === other.a && one.b === other.b
