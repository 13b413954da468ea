import type { Entry, Seq } from '../journal/entry.ts'
import { expandList, type Placed } from '../journal/expand.ts'
import type { OpenState } from '../journal/open-state.ts'
import { eventOf } from '../projection/project.ts'

/** What a list-replacing entry says, as the events that would have told it. */
export interface ExpandedEntry {
  readonly seq: Seq
  /** The entry's own time, for what the log gives none. */
  readonly time: number
  readonly list: readonly Placed[]
  /** The state right after it. */
  readonly state: OpenState
}

export interface Lists {
  /** Reads nothing: whoever asks has just read the entry, so that what is deleted is not shown from memory. */
  of(entry: Entry): ExpandedEntry
}

export interface ListLimits {
  readonly maxLists: number
  /** Payloads of the kept lists together, in UTF-16 units; their parsed form takes several times that. */
  readonly maxUnits: number
}

const LIST_LIMITS: ListLimits = { maxLists: 8, maxUnits: 64 * 1024 * 1024 }

/**
 * Expansions of one journal's list-replacing entries, by seq. Reading gives a new object for an entry each
 * time, and a snapshot of many megabytes is parsed and expanded once for all pages and views of it. Past a
 * limit those go that were not asked for longest; the newest one stays whatever its size.
 */
export function createLists(limits: ListLimits = LIST_LIMITS): Lists {
  /** A `Map` keeps the order of insertion: what is used is inserted anew, so the first is the oldest. */
  const kept = new Map<Seq, { readonly expanded: ExpandedEntry; readonly units: number }>()
  let units = 0

  const forget = (seq: Seq): void => {
    units -= kept.get(seq)?.units ?? 0
    kept.delete(seq)
  }

  return {
    of(entry) {
      const known = kept.get(entry.seq)
      const one = known ?? { expanded: expand(entry), units: entry.payload.length }
      forget(entry.seq)
      kept.set(entry.seq, one)
      units += one.units
      for (const seq of kept.keys()) {
        if (kept.size <= 1 || (kept.size <= limits.maxLists && units <= limits.maxUnits)) break
        forget(seq)
      }
      return one.expanded
    },
  }
}

function expand(entry: Entry): ExpandedEntry {
  const { seq, time, context } = entry
  const { event, data } = eventOf(entry)
  const { list, state } = expandList(event, data, seq, context.carried ?? { status: null }, context.notKept)
  return { seq, time, list, state }
}
