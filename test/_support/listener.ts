import type { Frame } from '@shoji/web-contract'
import { createParser } from 'eventsource-parser'
import { coalesce } from '../../src/delivery/coalesce.ts'
import { type Folding, fold, isBurst } from '../../src/delivery/fold.ts'
import { type Audience, admit, createAudience, type Selection } from '../../src/delivery/selection.ts'
import { createCursors } from '../../src/journal/cursor.ts'
import { asSeq, type Entry } from '../../src/journal/entry.ts'
import type { JournalReadOnly } from '../../src/journal/sqlite/read-only.ts'
import { createIds } from '../../src/projection/ids.ts'
import type { CompiledPolicy } from '../../src/projection/view.ts'
import { TOKENS, type User } from './shoji.ts'

/** One viewer who knows nothing but the last id: reconnects at once, whatever happens, until it is stopped. */
export class Listener {
  readonly frames: Frame[] = []
  lastEventId: string | undefined
  connects = 0
  readonly user: User
  readonly #url: () => string
  readonly #stopping = new AbortController()
  readonly #running: Promise<void>

  constructor(user: User, url: () => string) {
    this.user = user
    this.#url = url
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      await this.#connect(signal).catch(() => undefined)
      await new Promise(resolve => setTimeout(resolve, 10))
    }
  }

  async #connect(signal: AbortSignal): Promise<void> {
    const response = await fetch(this.#url(), {
      headers: {
        authorization: `Bearer ${TOKENS[this.user]}`,
        ...(this.lastEventId !== undefined && { 'last-event-id': this.lastEventId }),
      },
      signal,
    })
    if (response.status !== 200 || response.body === null) return
    this.connects += 1
    const parser = createParser({
      onEvent: ({ event, id, data }) => {
        this.frames.push({ event, data: JSON.parse(data), ...(id !== undefined && { id }) } as Frame)
        if (id !== undefined) this.lastEventId = id
      },
    })
    const decoder = new TextDecoder()
    for await (const chunk of response.body) parser.feed(decoder.decode(chunk, { stream: true }))
  }
}

export interface Verdict {
  readonly entries: number
  readonly frames: number
  readonly lost: number
  readonly doubled: number
  readonly misordered: number
  /** Frames that say something else than the journal does at their place. */
  readonly altered: number
  /** How connections began, after the first that brought an id. */
  readonly outcomes: Readonly<Record<string, number>>
}

export interface Asked {
  readonly selection: Selection
  readonly policy: CompiledPolicy
  readonly user: User
}

/**
 * Compares what a viewer heard with the journal's own order, as far as this viewer may see it. A position is
 * read out of each id; what lies between two of them must be exactly what the second one's frame says: one
 * entry, or the deltas that were joined in it.
 */
export async function judge(
  journal: JournalReadOnly,
  frames: readonly Frame[],
  { selection, policy, user }: Asked,
): Promise<Verdict> {
  const subject = { user, roles: [user], groups: [] }
  const audience = createAudience(journal.keys.id, { selection, policy, subject, history: 100 })
  const records = await journal.streams()
  for (const record of records) admit(audience, record)
  const cursors = createCursors({
    key: journal.keys.cursor,
    generations: () => journal.generations,
    head: () => journal.head,
  })
  const positionOf = (id: string | undefined): number => {
    const decoded = cursors.decode(id ?? '', audience.tag)
    if (!decoded.ok) throw new Error(`an id that is ${decoded.reason}`)
    return decoded.seq
  }
  const folding = { journal, cursors, ids: createIds(journal.keys.id) } as unknown as Folding
  const expected = await visible(journal, folding, audience)

  const count = { lost: 0, doubled: 0, misordered: 0, altered: 0 }
  const outcomes: Record<string, number> = {}
  let next = 0
  let last: number | null = null
  let newest = 0
  let inBurst = false
  const heard = new Set<number>()
  for (const frame of frames) {
    if (frame.event === 'hello') {
      inBurst = false
      const { outcome, reason } = frame.data
      const name = reason === undefined ? outcome : `${outcome} ${reason}`
      if (last !== null) outcomes[name] = (outcomes[name] ?? 0) + 1
    }
    if (frame.event === 'snapshot') inBurst = true
    if (frame.id === undefined) continue
    const seq = positionOf(frame.id)
    if (last === null) {
      // The first burst: everything up to here is in its snapshots.
      last = seq
      next = expected.findIndex(e => e.seq > seq)
      if (next < 0) next = expected.length
      inBurst = false
      continue
    }
    const burst: boolean = frame.event === 'caught_up' && inBurst
    if (frame.event === 'envelope' || frame.event === 'gap' || burst) {
      inBurst = false
      if (heard.has(seq)) count.doubled += 1
      else if (seq <= newest) count.misordered += 1
      heard.add(seq)
      newest = Math.max(newest, seq)
      const told: Expected[] = []
      while (next < expected.length && expected[next]!.seq <= seq) told.push(expected[next++]!)
      if (told.at(-1)?.seq !== seq) count.altered += 1
      else if (!sameAs(frame, told, burst)) {
        count.lost += told.length - 1
        if (told.length === 1) count.altered += 1
      }
    } else {
      // A position alone: nothing that is shown may lie before it untold.
      while (next < expected.length && expected[next]!.seq <= seq) {
        next += 1
        count.lost += 1
      }
    }
    last = Math.max(last, seq)
  }
  count.lost += expected.length - next
  return { entries: expected.length, frames: frames.length, ...count, outcomes }
}

interface Expected {
  readonly seq: number
  /** Null for a burst. */
  readonly frame: Frame | null
}

function sameAs(frame: Frame, told: readonly Expected[], burst: boolean): boolean {
  const frames = told.flatMap(e => (e.frame === null ? [] : [e.frame]))
  if (burst) return told.length === 1 && frames.length === 0
  if (frames.length !== told.length) return false
  const joined = coalesce(frames)
  return joined.length === 1 && JSON.stringify(joined[0]!.data) === JSON.stringify(frame.data)
}

async function visible(journal: JournalReadOnly, folding: Folding, audience: Audience): Promise<Expected[]> {
  const expected: Expected[] = []
  for (let after = asSeq(0); ; ) {
    const page = await journal.readAfter([...audience.streams.keys()], after, {
      maxRows: 5_000,
      maxBytes: 64 * 1024 * 1024,
    })
    for (const entry of page.entries) {
      const made = fold(folding, audience, entry as Entry)
      if (isBurst(made)) expected.push({ seq: entry.seq, frame: null })
      else if (made !== null) expected.push({ seq: entry.seq, frame: made })
    }
    after = page.through
    if (page.atHead) return expected
  }
}
