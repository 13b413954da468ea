import { createGrowingSearch, placeOf } from './growing-search.ts'

/**
 * How much of what follows a snapshot stands in the snapshot's text already. The upstream gives no mark, so
 * the texts are compared, and a wrong answer costs either way: too much taken for overlap leaves text out
 * until the block's `…_done`, too little shows it twice until then.
 *
 * | the pieces so far                                                       | overlap                        |
 * |-------------------------------------------------------------------------|--------------------------------|
 * | stand together in the text, not only at its end                         | not known yet: `hold`          |
 * | stand together at its end only                                          | all                            |
 * | do not stand together, and the text ends with the first k of them       | the largest such k             |
 * | do not, it ends with none, and each stands after the one before (chain) | not known yet: `hold`          |
 * | were a chain before this one                                            | the chain, if it convinces     |
 * | are a chain that reaches the end of the text                            | the chain, if it convinces     |
 *
 * and when it has to be settled with what is known:
 *
 * | stand together in the text                     | the largest k that the text ends with; else, of `many` |
 * |                                                | pieces, all if they are `LONE_RUN` long and stand once |
 * | are a chain                                    | the chain, if it convinces                             |
 *
 * Where the upstream loses nothing, true overlap is a beginning that the text ends with. The chain is for one
 * that loses some of it. Most snapshots overlap with nothing, and prose, code and tables repeat themselves:
 * the next words of a long text stand in it somewhere, in that order, more often than not. So a chain has to
 * convince: pieces that stand side by side are a run, a run of `WITNESS_CHARS` that stands in the text once is
 * a witness, and it takes two. A text that says a passage of its own again is told from overlap by its speed:
 * `many` pieces within the time limit are a backlog.
 *
 * Work: two walks over the text and one over the pieces for all of them together, a walk for the verdict, and
 * two for each of the `EXAMINED_RUNS` longest runs. A walk takes some nanoseconds a character.
 */
export interface Overlap {
  /** Takes the next piece: `hold`, or how many pieces from the first on, this one included, are overlap. */
  take(piece: string): 'hold' | number
  /**
   * The verdict on what is held. `many`: the limit of pieces ran out, not that of time. `goesOn`: where in the
   * text the next piece stands if it is overlap too.
   */
  settle(many: boolean): { readonly overlap: number; readonly goesOn?: number }
}

const WITNESS_CHARS = 8
const WITNESSES = 2
/** Characters from which one run convinces alone. */
const LONE_RUN = 64
const EXAMINED_RUNS = 8

interface Run {
  readonly place: number
  length: number
}

export function createOverlap(text: string): Overlap {
  const search = createGrowingSearch(text)
  // Length of the first piece, the first two, …
  const lengths: number[] = []
  let count = 0
  let chain: Run[] | undefined
  let end = 0

  const standsOnce = (run: Run): boolean => {
    const words = text.slice(run.place, run.place + run.length)
    const first = placeOf(text, words, 0)
    return placeOf(text, words, first + 1) < 0
  }

  const convinces = (runs: readonly Run[]): boolean => {
    const long = runs.filter(run => run.length >= WITNESS_CHARS).sort((a, b) => b.length - a.length)
    let found = 0
    for (const run of long.slice(0, EXAMINED_RUNS)) {
      if (standsOnce(run)) found += 1
      if (found === WITNESSES) return true
    }
    return false
  }

  const beginning = (): number => {
    const length = search.tail(lengths)
    return length === 0 ? 0 : lengths.lastIndexOf(length) + 1
  }

  const verdictOnChain = (runs: readonly Run[], pieces: number): number => (convinces(runs) ? pieces : 0)

  const takeIntoChain = (runs: Run[], piece: string): 'hold' | number => {
    const place = placeOf(text, piece, end)
    if (place < 0) return verdictOnChain(runs, count)
    const last = runs.at(-1)
    if (last !== undefined && place === end) last.length += piece.length
    else runs.push({ place, length: piece.length })
    end = place + piece.length
    count += 1
    return end === text.length ? verdictOnChain(runs, count) : 'hold'
  }

  return {
    take(piece) {
      if (chain !== undefined) return takeIntoChain(chain, piece)
      const found = search.grow(piece)
      if (found !== 'absent') {
        lengths.push(search.length)
        count += 1
        return found === 'end' ? count : 'hold'
      }
      const ended = beginning()
      if (ended > 0 || search.length === 0) return ended
      chain = [{ place: search.place, length: search.length }]
      end = search.place + search.length
      return takeIntoChain(chain, piece)
    },
    settle(many) {
      if (chain !== undefined) return { overlap: verdictOnChain(chain, count) }
      const ended = beginning()
      if (ended > 0 || !many || search.length < LONE_RUN) return { overlap: ended }
      const run = { place: search.place, length: search.length }
      return standsOnce(run) ? { overlap: count, goesOn: run.place + run.length } : { overlap: 0 }
    },
  }
}
