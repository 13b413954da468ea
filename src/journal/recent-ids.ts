/** Ids remembered to know a repetition: at least this many, the Runtime's whole backlog, and at most double. */
const RECENT_IDS = 1_024

/** The newest ids of one incarnation. */
export interface RecentIds {
  /** False where the id is known already. */
  note(id: string): boolean
  clear(): void
}

export function createRecentIds(): RecentIds {
  let recent = new Set<string>()
  /** The ids before those of `recent`: a set whose oldest member is taken out each time slows down. */
  let older = new Set<string>()
  return {
    note(id) {
      if (recent.has(id) || older.has(id)) return false
      // A copy: as a slice of its frame an id would keep all of that in memory.
      recent.add(Buffer.from(id).toString())
      if (recent.size >= RECENT_IDS) {
        older = recent
        recent = new Set()
      }
      return true
    },
    clear() {
      recent = new Set()
      older = new Set()
    },
  }
}
