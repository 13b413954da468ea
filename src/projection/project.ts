import {
  CLASSES,
  type Class,
  type EnvelopeData,
  type GapReason,
  type Level,
  type ResetReason,
  type Withheld,
} from '@shoji/web-contract'
import type { BlockKind, Context, EndedBlock, Entry, StreamId } from '../journal/entry.ts'
import { commandName, flatten } from '../journal/step.ts'
import { asArray, asRecord, asText, isRecord, type Json, parseJson } from '../lib/json.ts'
import { EVENTS, type EventShape, internalWorkerShape, NEVER, UNKNOWN_SHAPE } from './classes.ts'
import type { Ids } from './ids.ts'
import { type Walk, walkShape } from './shape.ts'
import type { View } from './view.ts'

/** The one way to a viewer: one entry gives at most one frame or, where it replaces the list, one burst. */
export type Projected =
  | { readonly frame: 'envelope'; readonly data: EnvelopeData }
  | { readonly frame: 'gap'; readonly reason: GapReason }
  | { readonly frame: 'burst'; readonly opening: 'view' | 'reset'; readonly reason: ResetReason }

/** Where an entry stands on the wire. */
export interface Place {
  readonly stream: StreamId
  readonly runtime: string
  readonly worker: string
}

/** An event with its context: a journaled entry, or one place in an expanded list. */
export interface Event {
  readonly event: string
  readonly data: Json
  readonly time: number
  readonly context: Context
}

const parsed = new WeakMap<Entry, { event: string; data: Json }>()

/** The entry's event, parsed at most once however many views look at it. */
export function eventOf(entry: Entry): Event {
  let known = parsed.get(entry)
  if (known === undefined) {
    const payload = entry.payload === '' ? {} : asRecord(parseJson(entry.payload))
    known = { event: entry.event, data: asRecord(payload.data) }
    parsed.set(entry, known)
  }
  return { ...known, time: entry.time, context: entry.context }
}

/**
 * Projects one entry for one view. Pure and total: what can't be projected is withheld (null), and the
 * stream goes on. `onFailure` is told of a projector that threw.
 */
export function project(
  view: View,
  ids: Ids,
  place: Place,
  entry: Entry,
  onFailure?: (error: unknown) => void,
): Projected | null {
  try {
    const { context } = entry
    if (!view.observe || context.overlap || context.doubled) return null
    if (context.gap !== undefined) return blank(view) ? null : { frame: 'gap', reason: context.gap }
    if (context.replaces) return projectBurst(view, context)
    return projectEvent(view, ids, place, eventOf(entry))
  } catch (error) {
    onFailure?.(error)
    return null
  }
}

/** A view that drops every class is told of nothing, resets neither. */
const blank = (view: View): boolean => CLASSES.every(c => view.levels[c] === 'drop')

function projectBurst(view: View, context: Context): Projected | null {
  if (blank(view)) return null
  if (context.differs?.every(c => view.levels[c] === 'drop')) return null
  if (context.first) return { frame: 'burst', opening: 'view', reason: 'upstream_unverifiable' }
  return { frame: 'burst', opening: 'reset', reason: context.reset ?? 'upstream_unverifiable' }
}

/** Level of a class for what belongs to a tool: an unknown tool is not one that is named. */
export function levelOf(view: View, of: Class, tool: string | null | undefined): Level {
  if (tool === undefined || !of.startsWith('tool_')) return view.levels[of]
  const narrowed = tool === null ? view.unknownTool : view.tools?.get(tool)
  return narrowed?.[of] ?? view.levels[of]
}

interface Known {
  readonly tool?: string | null | undefined
  readonly notKept?: readonly Class[]
}

/** A class that was not kept is masked at most: an empty text is not what was said. */
const levelIn = (view: View, of: Class, { tool, notKept }: Known): Level => {
  const level = levelOf(view, of, tool)
  return level !== 'drop' && notKept?.includes(of) ? 'mask' : level
}

/** Whether a view is told of an event at all. `command` events go by `command.<kind>`. */
function tells(view: View, name: string, context: Known): boolean {
  if (NEVER.has(name)) return false
  const shape = Object.hasOwn(EVENTS, name) ? EVENTS[name] : undefined
  if (shape === undefined) return view.levels.unknown !== 'drop'
  return shape.of.some(of => {
    const level = levelIn(view, of, context)
    return shape.delta ? level === 'show' || level === 'truncate' : level !== 'drop'
  })
}

/** Whether a view was ever told of a block or call: only then is it told of its end. */
export const toldOf = (view: View, block: EndedBlock): boolean =>
  block.seen.some(
    name =>
      (block.kind !== 'call' || name === 'tool_call_start' || name === 'tool_call_done') &&
      (block.kind !== 'stdout' && block.kind !== 'stderr' ? true : name === 'command.output') &&
      tells(view, name, block),
  )

/** What a block's pieces are called. */
const PIECE: Readonly<Record<Exclude<BlockKind, 'call'>, string>> = {
  text: 'text_delta',
  thinking: 'thinking_delta',
  stdout: 'command.output',
  stderr: 'command.output',
}

/** Whether a view is told of the pieces of the text that an event belongs to. */
export const tellsPieces = (view: View, { blockKind, tool }: Context): boolean =>
  blockKind !== undefined && blockKind !== 'call' && tells(view, PIECE[blockKind], { tool })

/** Name under which the table knows an event. */
const tableName = (event: string, data: Json): string => (event === 'command' ? commandName(data) : event)

/** True where the view is told of an event, whatever item it touches. */
export function isTold(view: View, { event, data, context }: Event): boolean {
  const flat = flatten(event, data)
  return tells(view, tableName(flat.event, flat.data), context)
}

/** True where the view sees this event and none of those that touched its item before. */
export function beginsItem(view: View, event: Event): boolean {
  const { context } = event
  if (context.item === undefined || context.overlap || context.doubled) return false
  const flat = flatten(event.event, event.data)
  if (!tells(view, tableName(flat.event, flat.data), context)) return false
  // What was not kept of those is not among them where it makes a difference.
  const { tool } = context
  return !(context.seen ?? []).some(name => tells(view, name, { tool }))
}

/** Of what a rolled-back run takes back, that which the view was shown. */
function removes(view: View, ids: Ids, { stream }: Place, { unsays }: Context): { removes?: string[] } {
  const shown = (unsays ?? []).filter(({ seen, tool }) => seen.some(name => tells(view, name, { tool })))
  return shown.length === 0 ? {} : { removes: shown.map(({ key }) => ids.of(stream, key)) }
}

export function projectEvent(view: View, ids: Ids, place: Place, event: Event): Projected | null {
  const { context } = event
  const tails = (context.ends ?? [])
    .filter(block => toldOf(view, block))
    .map(block => ({ block: ids.of(place.stream, block.key), text: '' }))
  const flat = flatten(event.event, event.data)
  const name = tableName(flat.event, flat.data)
  const told = tells(view, name, context)
  if (!told && tails.length === 0) return null
  const common = { runtime: place.runtime, worker: place.worker, time: event.time }
  const ending = tails.length > 0 ? { tails } : {}
  if (!told) return { frame: 'envelope', data: { ...common, event: 'block_end', data: {}, ...ending } }
  const withheld: Withheld[] = []
  const walk: Walk = { level: of => levelIn(view, of, context), withheld, safeId: ids.safe }
  return {
    frame: 'envelope',
    data: {
      ...common,
      ...build(event.event, event.data, name, walk),
      ...(context.item !== undefined && { item: ids.of(place.stream, context.item) }),
      ...(beginsItem(view, event) && { begins: true as const }),
      ...(context.block !== undefined && { block: ids.of(place.stream, context.block) }),
      ...removes(view, ids, place, context),
      ...ending,
      ...(withheld.length > 0 && { withheld }),
    },
  }
}

/** Builds `event` and `data` anew from what the table knows, with the internal workers around them. */
function build(
  event: string,
  data: Json,
  name: string,
  walk: Walk,
  base = '/data',
): { event: string; data: Json } {
  if (event === 'internal_worker' && isRecord(data.event)) {
    const inner: Json = data.event
    const worker = walkShape(internalWorkerShape, data.worker, `${base}/worker`, walk)
    const revision = walkShape({ leaf: 'lifecycle' }, data.revision, `${base}/revision`, walk)
    const nested = build(asText(inner.event), asRecord(inner.data), name, walk, `${base}/event/data`)
    return {
      event,
      data: { worker, ...(revision !== undefined && { revision }), event: nested },
    }
  }
  const shape: EventShape | undefined = Object.hasOwn(EVENTS, name) ? EVENTS[name] : undefined
  if (shape === undefined) return { event: walk.safeId(event), data: unknownData(data, base, walk) }
  return { event, data: asRecord(walkShape({ fields: shape.fields }, data, base, walk)) }
}

function unknownData(data: Json, base: string, walk: Walk): Json {
  const value = walkShape(UNKNOWN_SHAPE, data, base, walk)
  return isRecord(value) ? value : { value: asArray(value) }
}
