import { asSeq, type Entry, GAP_EVENT, type StreamId } from '../../src/journal/entry.ts'
import type { JournalReadOnly } from '../../src/journal/sqlite/read-only.ts'
import type { Reached } from './chaos-runtime.ts'

const NUMBER = /#(\d+)\.(\d+);/g

export const numbersIn = (text: string): Reached[] =>
  [...text.matchAll(NUMBER)].map(([, life, n]) => ({ life: Number(life), next: Number(n) + 1 }))

const nameOf = ({ life, next }: Reached): string => `${life}.${next - 1}`

const later = (a: Reached, b: Reached): Reached =>
  b.life > a.life || (b.life === a.life && b.next > a.next) ? b : a

/** Events that tell a number for the first time; a block's end repeats its pieces. */
const TELLING: ReadonlySet<string> = new Set(['user_message', 'text_delta', 'thinking_delta', 'tool_result'])

export interface Account {
  /** Numbers that stand in the journal as events. */
  numbers: number
  /** Entries of a number that does not follow the one before it, with no reset or gap between them. */
  readonly unannounced: string[]
  /** Numbers that are missing behind the newest entry. */
  readonly missing: string[]
  readonly resets: Record<string, number>
  /** Numbers of which the journal has not heard and a reset says so. */
  announced: number
  /** Numbers of a life that was told to its end, though the Runtime was killed meanwhile. */
  bridged: number
  /** Lists that were replaced as wrong at rest, with nothing before that could have made them so. */
  readonly unexplained: string[]
  /** Numbers that were told a second time: doubled until the next rest of the worker. */
  twice: number
  /** Workers in whose newest list a number still stands twice. */
  readonly unhealed: string[]
  gaps: number
  overlap: number
  doubled: number
  adopted: number
}

export interface Told {
  /** How far each worker came in the lives that ended with the store kept, by worker and life. */
  readonly ended: ReadonlyMap<string, ReadonlyMap<number, number>>
  /** How far each worker came in all. */
  readonly last: Readonly<Record<string, Reached>>
}

/**
 * Holds the journal against what the publisher numbered. Between two resets or gaps the numbers of a worker
 * must follow each other, from the newest in the snapshot on; a life may go over into the next one only where
 * its last number was heard and the store was kept.
 */
export async function account(journal: JournalReadOnly, told: Told): Promise<Account> {
  const sum: Account = {
    numbers: 0,
    unannounced: [],
    missing: [],
    resets: {},
    announced: 0,
    bridged: 0,
    unexplained: [],
    twice: 0,
    unhealed: [],
    gaps: 0,
    overlap: 0,
    doubled: 0,
    adopted: 0,
  }
  const workers = new Map((await journal.streams()).map(record => [record.id, record.worker]))
  /** The number that must come next; null where any may. */
  const at = new Map<StreamId, Reached | null>()
  /** What may be wrong with a list, which its worker's next rest puts right. */
  const doubts = new Map<StreamId, Set<'begun in mid-run' | 'lost with a life' | 'twice'>>()
  const adopted = new Map<StreamId, Set<string>>()
  for await (const entry of entriesOf(journal, [...workers.keys()])) {
    const worker = workers.get(entry.stream) ?? ''
    const { context, event, payload, stream } = entry
    if (event === GAP_EVENT) {
      sum.gaps += 1
      at.set(stream, null)
    } else if (context.replaces) {
      const reason = context.first ? 'first' : (context.reset ?? 'none')
      sum.resets[reason] = (sum.resets[reason] ?? 0) + 1
      if (reason === 'upstream_resynced' && !doubts.get(stream)?.size)
        sum.unexplained.push(`${worker} ${entry.seq}`)
      doubts.set(stream, new Set(payload.includes('"status":"running"') ? ['begun in mid-run'] : []))
      adopted.set(stream, new Set())
      const shown = numbersIn(payload).reduce(later, { life: -1, next: 0 })
      const before = at.get(stream)
      if (before != null && before.life === shown.life) sum.announced += Math.max(0, shown.next - before.next)
      // Whatever it shows, it shows the beginning of the life it was taken in.
      if (shown.life < 0) sum.unannounced.push(`${worker} ${entry.seq}: a snapshot without a number`)
      at.set(stream, shown)
    } else if (context.overlap) sum.overlap += 1
    else if (context.doubled) sum.doubled += 1
    else if (context.adopted) {
      sum.adopted += 1
      for (const number of numbersIn(payload)) adopted.get(stream)?.add(nameOf(number))
    } else if (TELLING.has(event)) {
      for (const number of numbersIn(payload)) {
        const expected = at.get(stream)
        sum.numbers += 1
        // A later Runtime tells a message twice, and a snapshot at rest may have come between.
        const again =
          event === 'user_message' && expected?.life === number.life && expected.next === number.next
        if (again || adopted.get(stream)?.has(nameOf(number))) {
          sum.twice += 1
          doubts.get(stream)?.add('twice')
        }
        if (again) continue
        const wanted = expected === null ? number : expected
        const follows =
          wanted?.life === number.life && wanted.next === number.next - (expected === null ? 0 : 1)
        const goesOver =
          wanted !== undefined &&
          number.life > wanted.life &&
          number.next === 1 &&
          told.ended.get(worker)?.get(wanted.life) === wanted.next
        if (goesOver) {
          sum.bridged += 1
          doubts.get(stream)?.add('lost with a life')
        }
        if (!follows && !goesOver)
          sum.unannounced.push(
            `${worker} ${entry.seq} ${event}: ${number.life}.${number.next - 1} instead of ${wanted?.life}.${wanted?.next}`,
          )
        at.set(stream, number)
      }
    }
  }
  for (const [stream, worker] of workers) {
    if (doubts.get(stream)?.has('twice')) sum.unhealed.push(worker)
    const reached = at.get(stream)
    const last = told.last[worker]
    if (reached === null || last === undefined) continue
    if (reached?.life !== last.life || reached.next !== last.next)
      sum.missing.push(`${worker}: ${reached?.life}.${reached?.next} instead of ${last.life}.${last.next}`)
  }
  return sum
}

async function* entriesOf(journal: JournalReadOnly, streams: StreamId[]): AsyncGenerator<Entry> {
  for (let after = asSeq(0); ; ) {
    const page = await journal.readAfter(streams, after, { maxRows: 2_000, maxBytes: 64 * 1024 * 1024 })
    yield* page.entries as Entry[]
    after = page.through
    if (page.atHead) return
  }
}

/** Numbers of a life that a text shows more than once, or leaves out between the first and the last. */
export function unevenIn(text: string, life: number): number[] {
  const shown = numbersIn(text)
    .filter(n => n.life === life)
    .map(n => n.next)
    .sort((a, b) => a - b)
  return shown.filter((n, i) => i > 0 && n !== shown[i - 1]! + 1)
}
