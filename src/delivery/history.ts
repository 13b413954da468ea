import {
  type EnvelopeData,
  emptyWorkerState,
  type Item,
  reduceWorker,
  type WorkerState,
} from '@shoji/web-contract'
import type { Entry, Key, Seq } from '../journal/entry.ts'
import { expandList, type Placed } from '../journal/expand.ts'
import type { Journal } from '../journal/journal.ts'
import type { Ids } from '../projection/ids.ts'
import { beginsItem, type Event, eventOf, projectEvent } from '../projection/project.ts'
import { cutLeaves } from './cut.ts'
import type { Sight } from './selection.ts'

/** A page looks at no more raw items than this, so that a view that hides nearly all costs no more. */
const RAW_ITEMS_MAX = 2_000
const MARKS_PAGE = { maxRows: 256, maxBytes: 4 * 1024 * 1024 }
const ITEM_PAGE = { maxRows: 4_096, maxBytes: 8 * 1024 * 1024 }
const SLICE_MS = 5

export interface Reading {
  readonly journal: Journal
  readonly ids: Ids
  readonly monotonicMs: () => number
}

export interface ItemPage {
  /** Oldest first. */
  readonly items: readonly Item[]
  /** Where the page before begins: everything before this place. Null where nothing lies before. */
  readonly earlier: Key | null
}

export interface ItemRange {
  /** Only what began before this place. */
  readonly before: Key
  /** Entries after this are not looked at: the page is the list as it stood there. */
  readonly through: Seq
  /** Seq of the list-replacing entry that governs; 0 where there is none. */
  readonly replacing: Seq
  readonly maxItems: number
  readonly maxBytes: number
}

/**
 * The newest items before a place, projected. An item stands where its first frame that this view shows
 * stands, so a page agrees with what was seen live whatever the view hides.
 */
export async function readItems(reading: Reading, sight: Sight, range: ItemRange): Promise<ItemPage> {
  const items: Item[] = []
  let bytes = 0
  let raw = 0
  const slice = slicer(reading.monotonicMs)
  for await (const candidate of candidates(reading, sight, range)) {
    if (items.length >= range.maxItems || bytes >= range.maxBytes || raw >= RAW_ITEMS_MAX) {
      return { items: items.reverse(), earlier: nextKey(candidate.key) }
    }
    raw += 1
    if (!beginsItem(sight.view, candidate.event)) continue
    const item = await readItem(reading, sight, candidate.event.context.item!, range.through, candidate.list)
    if (item === null) continue
    const cut = cutItem(item, sight)
    bytes += JSON.stringify(cut, bigintAsText).length
    items.push(cut)
    await slice()
  }
  return { items: items.reverse(), earlier: null }
}

const bigintAsText = (_: string, value: unknown): unknown =>
  typeof value === 'bigint' ? String(value) : value

/** The place just behind a candidate: "before this" then includes it. */
const nextKey = (key: Key): Key => ({ seq: key.seq, index: key.index + 1 })

interface Candidate {
  readonly key: Key
  readonly event: Event
  /** The expanded list, where the candidate stands in one. */
  readonly list: ExpandedEntry | null
}

interface ExpandedEntry {
  readonly entry: Entry
  readonly list: readonly Placed[]
}

async function* candidates(
  { journal }: Reading,
  { record }: Sight,
  { before, replacing }: ItemRange,
): AsyncGenerator<Candidate> {
  let from = before
  const list = replacing === 0 ? null : await expanded(journal, replacing)
  for (;;) {
    const bound = (from.index > 0 ? from.seq + 1 : from.seq) as Seq
    const marks = await journal.readMarks(record.id, bound, replacing, MARKS_PAGE)
    for (const entry of marks) {
      if (entry.seq === replacing) {
        if (list === null) return
        const end = from.seq === replacing ? from.index : list.list.length
        for (let i = Math.min(end, list.list.length) - 1; i >= 0; i--) {
          const placed = list.list[i]!
          if (placed.context.item !== undefined)
            yield { key: { seq: replacing, index: i }, event: asEvent(placed, list.entry), list }
        }
        return
      }
      yield { key: { seq: entry.seq, index: 0 }, event: eventOf(entry), list }
    }
    const last = marks.at(-1)
    if (last === undefined) return
    from = { seq: last.seq, index: 0 }
  }
}

const expansions = new WeakMap<Entry, ExpandedEntry>()

/** The list that an entry replaced everything with. */
export const expandedAt = (entry: Entry): ExpandedEntry => expandEntry(entry)

async function expanded(journal: Journal, seq: Seq): Promise<ExpandedEntry | null> {
  const entry = await journal.readEntry(seq)
  return entry === null ? null : expandEntry(entry)
}

export function expandEntry(entry: Entry): ExpandedEntry & { state: ReturnType<typeof expandList>['state'] } {
  const known = expansions.get(entry)
  if (known !== undefined) return known as never
  const { event, data } = eventOf(entry)
  const carried = entry.context.carried ?? { status: null }
  const { list, state } = expandList(event, data, entry.seq, carried)
  const made = { entry, list, state }
  expansions.set(entry, made)
  return made
}

export const asEvent = (placed: Placed, entry: Entry): Event => ({
  event: placed.event,
  data: placed.data,
  time: placed.time ?? entry.time,
  context: placed.context,
})

/** One item as this view has it: its frames, reduced. Null where the view shows nothing of it. */
export async function readItem(
  { journal, ids }: Reading,
  sight: Sight,
  key: Key,
  through: Seq,
  list: ExpandedEntry | null,
): Promise<Item | null> {
  const events: Event[] = []
  if (list !== null && key.seq === list.entry.seq)
    for (const placed of list.list)
      if (placed.context.item?.index === key.index) events.push(asEvent(placed, list.entry))
  const marks = await readAll(journal, sight, key, through, 'marks')
  const settled = [...events, ...marks].some(e => SETTLES.has(innermost(e)))
  events.push(
    ...(settled || !grows(marks, events) ? marks : await readAll(journal, sight, key, through, 'all')),
  )
  let state: WorkerState = emptyWorkerState()
  for (const event of events) {
    const projected = projectEvent(sight.view, ids, sight.place, event)
    if (projected?.frame === 'envelope') state = reduceWorker(state, withoutTails(projected.data))
  }
  return state.items[0] ?? null
}

const withoutTails = ({ tails: _, ...data }: EnvelopeData): EnvelopeData => data

/** A text that its `…_done` repeats whole: the pieces before it need not be read. */
const SETTLES: ReadonlySet<string> = new Set(['text_done', 'thinking_done'])

const innermost = (event: Event): string => {
  let { event: name, data } = event as { event: string; data: Record<string, unknown> }
  while (name === 'internal_worker' && typeof data.event === 'object' && data.event !== null) {
    const inner = data.event as { event?: unknown; data?: unknown }
    name = String(inner.event)
    data = (inner.data ?? {}) as Record<string, unknown>
  }
  return name
}

const grows = (...parts: (readonly Event[])[]): boolean =>
  parts.some(events => events.some(e => e.context.blockKind !== undefined && e.context.blockKind !== 'call'))

async function readAll(
  journal: Journal,
  { record }: Sight,
  key: Key,
  through: Seq,
  which: 'marks' | 'all',
): Promise<Event[]> {
  const page = await journal.readItem(record.id, key, through, ITEM_PAGE, which)
  return page.entries.map(eventOf)
}

/** An item with its long leaves cut; the path in `rest` answers them whole. */
export function cutItem(item: Item, { place }: Sight): Item {
  const { cut: before, withheld, ...content } = item
  const { value, cut } = cutLeaves(content, '', at => restPath(place, item.id, at))
  const all = [...(before ?? []), ...cut]
  return {
    ...value,
    ...(withheld !== undefined && { withheld }),
    ...(all.length > 0 && { cut: all }),
  } as Item
}

export const restPath = (place: { runtime: string; worker: string }, item: string, at: string): string =>
  `/api/runtimes/${encodeURIComponent(place.runtime)}/workers/${encodeURIComponent(place.worker)}` +
  `/items/${encodeURIComponent(item)}/rest?at=${encodeURIComponent(at)}`

/** Gives the loop back after each slice of work. */
export function slicer(monotonicMs: () => number): () => Promise<void> {
  let began = monotonicMs()
  return async () => {
    if (monotonicMs() - began < SLICE_MS) return
    await new Promise<void>(resolve => setImmediate(resolve))
    began = monotonicMs()
  }
}
