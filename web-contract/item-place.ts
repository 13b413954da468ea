/** Which item an event speaks of, and where in it the event's fields end up. */
import { isRecord, record, str } from './json-values.ts'
import type { InternalWorker, Item } from './state.ts'

/** Internal workers nest; deeper than this an event is kept as it came. */
const NESTING_MAX = 16

export interface Inner {
  readonly event: string
  readonly data: Record<string, unknown>
  /** JSON pointer of `data` in the envelope. */
  readonly base: string
  /** The internal workers around it, outermost first. */
  readonly workers: readonly InternalWorker[]
}

export function innermost(envelope: { event: string; data: Record<string, unknown> }): Inner {
  let { event } = envelope
  let data = record(envelope.data)
  let base = '/data'
  const workers: InternalWorker[] = []
  for (let depth = 0; event === 'internal_worker' && isRecord(data.event) && depth < NESTING_MAX; depth++) {
    const worker = record(data.worker)
    workers.push({ ...worker, session_id: str(worker.session_id) })
    event = str(data.event.event)
    data = record(data.event.data)
    base += '/event/data'
  }
  return { event, data, base, workers }
}

/** What kind of item an event begins or changes; one that is not known here makes an `unsupported` one. */
export const ITEM_KINDS: ReadonlyMap<string, Item['kind']> = new Map([
  ['user_message', 'user_message'],
  ['system_item', 'system'],
  ['system_prompt', 'system_prompt'],
  ['text_delta', 'text'],
  ['text_done', 'text'],
  ['thinking_start', 'thinking'],
  ['thinking_delta', 'thinking'],
  ['thinking_done', 'thinking'],
  ['tool_call_start', 'tool_call'],
  ['tool_call_done', 'tool_call'],
  ['tool_result', 'tool_call'],
  ['command', 'tool_call'],
  ['error', 'error'],
  ['alert', 'notice'],
  ['llm_retry', 'notice'],
  ['llm_continuation', 'notice'],
  ['compact_start', 'notice'],
  ['compact_done', 'notice'],
  ['compact_failed', 'notice'],
  ['memory_worker', 'notice'],
  ['invoke_start', 'notice'],
  ['turn_start', 'notice'],
  ['turn_end', 'notice'],
  ['llm_call_start', 'notice'],
  ['llm_call_end', 'notice'],
  ['run_end', 'notice'],
])

/** The envelope's receipts that speak of this event, at the place in the item where the field ends up. */
export function receiptsInItem<T extends { at: string }>(
  list: T[] | undefined,
  inner: Inner,
  kind: Item['kind'],
): T[] {
  const { base } = inner
  return (list ?? [])
    .filter(r => r.at === base || r.at.startsWith(`${base}/`))
    .map(r => ({ ...r, at: placeInItem(inner, kind, r.at.slice(base.length)) }))
}

/** Where in its item a field of an envelope ends up: `at` points into the envelope, the answer into the item. */
export function pathInItem(envelope: { event: string; data: Record<string, unknown> }, at: string): string {
  const { event, data, base } = innermost(envelope)
  return placeInItem({ event, data }, ITEM_KINDS.get(event) ?? 'unsupported', at.slice(base.length))
}

function placeInItem(inner: Pick<Inner, 'event' | 'data'>, kind: Item['kind'], path: string): string {
  if (inner.event === 'tool_result') return `/result${path}`
  if (inner.event === 'command')
    return `/command${path.replace(/^\/event/, '').replace('/content', `/${streamOf(inner)}`)}`
  return kind === 'notice' || kind === 'unsupported' ? `/data${path}` : path
}

export const streamOf = (inner: Pick<Inner, 'data'>): 'stdout' | 'stderr' =>
  record(inner.data.event).stream === 'stderr' ? 'stderr' : 'stdout'
