import {
  type EnvelopeData,
  emptyWorkerState,
  type Item,
  reduceWorker,
  type WorkerState,
} from '@shoji/web-contract'
import { compareKeys, type Key, type Seq } from '../journal/entry.ts'
import type { Placed } from '../journal/expand.ts'
import type { Journal } from '../journal/journal.ts'
import { flatten } from '../journal/step.ts'
import { asRecord, asText, stringifyJson } from '../lib/json.ts'
import type { Ids } from '../projection/ids.ts'
import {
  beginsItem,
  type Event,
  eventOf,
  isTold,
  type Projected,
  projectEvent,
  tellsPieces,
} from '../projection/project.ts'
import { cutLeaves } from './cut.ts'
import type { ExpandedEntry, Lists } from './lists.ts'
import type { Sight } from './selection.ts'

/** A page looks at no more raw items than this, so that a view that hides nearly all costs no more. */
const RAW_ITEMS_MAX = 2_000
const MARKS_PAGE = { maxRows: 256, maxBytes: 4 * 1024 * 1024 }
const ITEM_MARKS = { maxRows: 4_096, maxBytes: 32 * 1024 * 1024 }
const PIECES_PAGE = { maxRows: 1_024, maxBytes: 1024 * 1024 }
/**
 * Pieces of one item that are read, in UTF-16 units of payload: twice the largest event. What an unfinished
 * text holds beyond it is shown live alone; its end, and everything else of the item, is read all the same.
 */
const PIECES_UNITS_MAX = 16 * 1024 * 1024
const SLICE_MS = 5

export interface Reading {
  readonly journal: Journal
  readonly ids: Ids
  readonly lists: Lists
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
  /** Items that a later entry took back, by their place, until they are met. */
  const unsaid = new Set<string>()
  for await (const candidate of candidates(reading, sight, range)) {
    const { item: touched, unsays } = candidate.event.context
    if (unsays !== undefined && isTold(sight.view, candidate.event))
      for (const { key } of unsays) unsaid.add(placeName(key))
    if (touched !== undefined && unsaid.has(placeName(touched))) {
      if (compareKeys(touched, candidate.key) === 0) unsaid.delete(placeName(touched))
      continue
    }
    // A page never ends inside a run that was taken back: the next one would not know of it.
    if (
      unsaid.size === 0 &&
      (items.length >= range.maxItems || bytes >= range.maxBytes || raw >= RAW_ITEMS_MAX)
    ) {
      return { items: items.reverse(), earlier: nextKey(candidate.key) }
    }
    raw += 1
    if (!beginsItem(sight.view, candidate.event)) continue
    const item = await readItem(reading, sight, candidate.event.context.item!, range.through, candidate.list)
    if (item === null) continue
    const cut = cutItem(item, sight)
    bytes += Buffer.byteLength(stringifyJson(cut))
    if (bytes > range.maxBytes && items.length > 0 && unsaid.size === 0)
      return { items: items.reverse(), earlier: nextKey(candidate.key) }
    items.push(cut)
    await slice()
  }
  return { items: items.reverse(), earlier: null }
}

const placeName = ({ seq, index }: Key): string => `${seq}:${index}`

/** The place just behind a candidate: "before this" then includes it. */
const nextKey = (key: Key): Key => ({ seq: key.seq, index: key.index + 1 })

interface Candidate {
  readonly key: Key
  readonly event: Event
  /** The expanded list, where the candidate stands in one. */
  readonly list: ExpandedEntry | null
}

async function* candidates(
  { journal, lists }: Reading,
  { record }: Sight,
  { before, replacing }: ItemRange,
): AsyncGenerator<Candidate> {
  let from = before
  for (;;) {
    const bound = (from.index > 0 ? from.seq + 1 : from.seq) as Seq
    const marks = await journal.readMarks(record.id, bound, replacing, MARKS_PAGE)
    for (const entry of marks) {
      if (entry.seq === replacing) {
        const list = lists.of(entry)
        const end = from.seq === replacing ? from.index : list.list.length
        for (let i = Math.min(end, list.list.length) - 1; i >= 0; i--) {
          const placed = list.list[i]!
          if (placed.context.item !== undefined)
            yield { key: { seq: replacing, index: i }, event: asEvent(placed, list), list }
        }
        return
      }
      // Of an item that begins behind the list for this view, the view is shown nothing in the list.
      yield { key: { seq: entry.seq, index: 0 }, event: eventOf(entry), list: null }
    }
    const last = marks.at(-1)
    if (last === undefined) return
    from = { seq: last.seq, index: 0 }
  }
}

const asEvent = (placed: Placed, { time }: ExpandedEntry): Event => ({
  event: placed.event,
  data: placed.data,
  time: placed.time ?? time,
  context: placed.context,
})

/** One item as this view has it: its frames, reduced. Null where the view shows nothing of it. */
export async function readItem(
  reading: Reading,
  sight: Sight,
  key: Key,
  through: Seq,
  list: ExpandedEntry | null,
): Promise<Item | null> {
  let state: WorkerState = emptyWorkerState()
  await tellItem(reading, sight, { key, through, list }, data => {
    state = reduceWorker(state, withoutTails(data))
  })
  return state.items[0] ?? null
}

/**
 * All that was said so far of a text that grows, where an item holds only its beginning: that of `/text`,
 * `/command/stdout` or `/command/stderr`. Bounded as the reading of pieces is.
 */
export async function readGrown(
  reading: Reading,
  sight: Sight,
  at: ItemAt & { readonly pointer: string },
): Promise<string> {
  let text = ''
  await tellItem(reading, sight, at, told => {
    const { event, data } = flatten(told.event, told.data)
    const output = asRecord(data.event)
    if (event === 'text_delta' || event === 'thinking_delta') text += asText(data.text)
    else if (output.kind === 'output' && at.pointer === `/command/${asText(output.stream)}`)
      text += asText(output.content)
  })
  return text
}

interface ItemAt {
  readonly key: Key
  readonly through: Seq
  /** The list that the item began in. */
  readonly list: ExpandedEntry | null
}

/** Every envelope of one item, in order. */
async function tellItem(
  reading: Reading,
  sight: Sight,
  { key, through, list }: ItemAt,
  told: (data: EnvelopeData) => void,
): Promise<void> {
  const { journal, ids } = reading
  const tell = (event: Event): void => {
    const projected = projectOrNull(sight, ids, event)
    if (projected?.frame === 'envelope') told(projected.data)
  }
  const listed: Event[] = []
  if (list !== null && key.seq === list.seq)
    for (const placed of list.list)
      if (placed.context.item?.index === key.index) listed.push(asEvent(placed, list))
  const marks = await journal.readItem(sight.record.id, key, through, ITEM_MARKS, 'marks')
  const known = [...listed, ...marks.entries.map(eventOf)]
  listed.forEach(tell)
  const whole = known.some(e => SETTLES.has(flatten(e.event, e.data).event))
  const read =
    whole || !known.some(e => tellsPieces(sight.view, e.context))
      ? 0
      : await readPieces(reading, sight, key, through, tell)
  for (const entry of marks.entries) if (entry.seq > read) tell(eventOf(entry))
}

/** Tells everything of an item in order, as far as its bound, page by page. Returns how far that is. */
async function readPieces(
  { journal, monotonicMs }: Reading,
  { record }: Sight,
  key: Key,
  through: Seq,
  tell: (event: Event) => void,
): Promise<number> {
  const slice = slicer(monotonicMs)
  let after: Seq | undefined
  for (let units = 0; ; ) {
    const page = await journal.readItem(record.id, key, through, PIECES_PAGE, 'all', after)
    for (const entry of page.entries) {
      tell(eventOf(entry))
      units += entry.payload.length
    }
    if (page.entries.length === 0 || page.through >= through || units >= PIECES_UNITS_MAX) return page.through
    after = page.through
    await slice()
  }
}

/** What can't be projected is withheld here as it is live: one bad event hides no worker. */
function projectOrNull({ view, place }: Sight, ids: Ids, event: Event): Projected | null {
  try {
    return projectEvent(view, ids, place, event)
  } catch {
    return null
  }
}

const withoutTails = ({ tails: _, ...data }: EnvelopeData): EnvelopeData => data

/** A text that its `…_done` repeats whole: the pieces before it need not be read. */
const SETTLES: ReadonlySet<string> = new Set(['text_done', 'thinking_done'])

/** An item with its long leaves cut; the path in `rest` answers them whole. */
function cutItem(item: Item, { place }: Sight): Item {
  const { cut: before, withheld, ...content } = item
  const { value, cut } = cutLeaves(content, '', at => restPath(place, item.id, at))
  // A text that grew past what a state holds is longer than what is cut here.
  const all = [...(before ?? []).filter(b => !cut.some(c => c.at === b.at)), ...cut].map(c => ({
    ...c,
    chars: before?.find(b => b.at === c.at)?.chars ?? c.chars,
  }))
  return {
    ...value,
    ...(withheld !== undefined && { withheld }),
    ...(all.length > 0 && { cut: all }),
  } as Item
}

export const restPath = (place: { runtime: string; worker: string }, item: string, at: string): string =>
  `/api/runtimes/${encodeURIComponent(place.runtime)}/workers/${encodeURIComponent(place.worker)}` +
  `/items/${encodeURIComponent(item)}/rest?at=${encodeURIComponent(at.replace(LONE_SURROGATE, '\ufffd'))}`

/** A foreign key may hold half a pair, which no URL can. */
const LONE_SURROGATE = /\p{Surrogate}/gu

/** Gives the loop back after each slice of work. */
function slicer(monotonicMs: () => number): () => Promise<void> {
  let began = monotonicMs()
  return async () => {
    if (monotonicMs() - began < SLICE_MS) return
    await new Promise<void>(resolve => setImmediate(resolve))
    began = monotonicMs()
  }
}
