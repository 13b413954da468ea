import type { Class, GapReason, ResetReason } from '@shoji/web-contract'

declare const brand: unique symbol
/** A position in the whole journal: strictly increasing, assigned by ingest, 1 to 2^48 - 1. Zero is before all. */
export type Seq = number & { readonly [brand]: 'Seq' }
/** Number of a stream (one worker of one source) in this journal. */
export type StreamId = number & { readonly [brand]: 'StreamId' }

export const asSeq = (n: number): Seq => n as Seq
export const asStreamId = (n: number): StreamId => n as StreamId
export const SEQ_MAX = 2 ** 48 - 1

/** A place inside the journal: an entry, and within a list-replacing entry one of its items. */
export interface Key {
  readonly seq: Seq
  /** 0 for an entry's own item; the place in the expanded list inside a list-replacing one. */
  readonly index: number
}

export const compareKeys = (a: Key, b: Key): number => a.seq - b.seq || a.index - b.index

export type BlockKind = 'text' | 'thinking' | 'stdout' | 'stderr' | 'call'

/** A block or call that an entry ends, with what a view needs to know whether it was ever shown. */
export interface EndedBlock {
  readonly key: Key
  readonly item: Key
  readonly kind: BlockKind
  readonly tool?: string | null
  /** Names of the events that touched the block so far. */
  readonly seen: readonly string[]
}

/** An item that is taken back, with the names of the events that touched it. */
export interface UnsaidItem {
  readonly key: Key
  readonly tool?: string | null
  readonly seen: readonly string[]
}

/**
 * What ingest resolved about an entry, once and for all. The projector may use the entry, this, and the raw
 * text of the blocks named here; nothing else, so that live, replay, history and export cannot disagree.
 */
export interface Context {
  /** Session id of the internal worker the event speaks of; absent for the worker's own. */
  readonly scope?: string
  /** The item it begins or changes. */
  readonly item?: Key
  /** Names of the events that touched this item before; empty where this one begins it. */
  readonly seen?: readonly string[]
  /** The block it belongs to. */
  readonly block?: Key
  readonly blockKind?: BlockKind
  /** Name of the tool whose call, arguments or output this is; null where it is not known. */
  readonly tool?: string | null
  readonly ends?: readonly EndedBlock[]
  /** Items of a run that was rolled back: the log forgets them, and so does every list. */
  readonly unsays?: readonly UnsaidItem[]
  /** Replaces the list of items: everything of the stream before it is no longer the conversation. */
  readonly replaces?: true
  /** The first list-replacing entry of its stream: it arrives as `view` and `snapshot`, not as a reset. */
  readonly first?: true
  readonly reset?: ResetReason
  /** Classes in which a resynced list differs; a view that drops them all sees nothing of the reset. */
  readonly differs?: readonly Class[]
  /** Status and usage as they stood, for entries that replace the list without telling them. */
  readonly carried?: { readonly status: string | null; readonly usage?: unknown; readonly greeting?: unknown }
  readonly gap?: GapReason
  /** Stands already in the snapshot before it: stored, never projected. */
  readonly overlap?: true
  /** The second telling of a user message: stored, never projected. */
  readonly doubled?: true
  /** Journaled by a resync as the event that would have told it. */
  readonly adopted?: true
  /** What was held back of the ended blocks is masked, since they did not end in the stream. */
  readonly masked?: true
  /** Classes that were removed before the write. */
  readonly notKept?: readonly Class[]
}

/** Name of the entry that stands for a frame that could not be taken. */
export const GAP_EVENT = 'shoji.gap'

/** A journaled envelope. */
export interface Entry {
  readonly seq: Seq
  readonly stream: StreamId
  /** Counts the lives of the stream upstream: `eventId` is unique within (stream, incarnation). */
  readonly incarnation: number
  /** Milliseconds since the epoch, when Shoji took it in. */
  readonly time: number
  /** The upstream event's name, or `GAP_EVENT`. */
  readonly event: string
  readonly eventId: string
  /** `{"event":…,"data":…}`, the text as it arrived. Empty for a gap. */
  readonly payload: string
  readonly context: Context
  /**
   * True where the entry may be the first of its item that some view shows: any entry that touches an item,
   * but for deltas after a block's first. Pages of items walk these.
   */
  readonly mark: boolean
}

/** What a source hands in: one event of one worker, as it came. */
export interface Envelope {
  readonly eventId: string
  /** The upstream's own cursor, where the dialect has one. */
  readonly cursor?: string
  /** `{"event":…,"data":…}`, the text as it arrived. */
  readonly payload: string
  /** `payload` as `parseJson` reads it, where the source has parsed it already. */
  readonly parsed?: unknown
  /** Milliseconds since the epoch. */
  readonly time: number
}
