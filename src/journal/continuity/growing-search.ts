/**
 * Looks for a pattern that grows at its end in a text that stays as it is: where `pieces so far` stand in it
 * first. Knuth, Morris and Pratt with the scan kept between the pieces: all pieces together cost one walk
 * over the text and one over themselves, whatever they say, and `tail` one more walk. Native search does not
 * promise that for texts of few different characters. Memory: 4 bytes for a character of the pattern, which
 * is never longer than the text.
 */
export interface GrowingSearch {
  /** Characters (UTF-16 units) of the pieces that were found. */
  readonly length: number
  /** Where they stand first. */
  readonly place: number
  /**
   * Appends a piece. `inside`: all pieces stand in the text before its end. `end`: at its end and nowhere
   * before. `absent`: nowhere, and the piece was not taken.
   */
  grow(piece: string): 'inside' | 'end' | 'absent'
  /** The largest of `lengths` (ascending, above zero) so that the text ends with that much of the pattern; 0 if none. */
  tail(lengths: readonly number[]): number
}

export function createGrowingSearch(text: string): GrowingSearch {
  let length = 0
  let place = 0
  // borders[q]: length of the longest proper prefix of the pattern's first q + 1 characters that ends them.
  let borders = new Int32Array(0)

  const reserve = (wanted: number): void => {
    if (wanted <= borders.length) return
    const grown = new Int32Array(Math.min(text.length, Math.max(wanted, borders.length * 2, 256)))
    grown.set(borders)
    borders = grown
  }

  return {
    get length() {
      return length
    },
    get place() {
      return place
    },
    grow(piece) {
      const wanted = length + piece.length
      if (wanted > text.length) return 'absent'
      const before = length
      const stands = place
      // What was found stands in the text: the pattern needs no copy of its own.
      const at = (q: number): number =>
        q < before ? text.charCodeAt(stands + q) : piece.charCodeAt(q - before)
      reserve(wanted)
      extendBorders(borders, at, before, wanted)
      const end = scan(text, borders, at, stands + before, before, wanted)
      if (end < 0) return 'absent'
      length = wanted
      place = end - wanted
      return end === text.length ? 'end' : 'inside'
    },
    tail(lengths) {
      if (length === 0) return 0
      const stands = place
      const at = (q: number): number => text.charCodeAt(stands + q)
      const last = borders[length - 1]!
      let matched =
        stands + length === text.length ? length : walkToEnd(text, borders, at, stands + length, length, last)
      const wanted = new Set(lengths)
      while (matched > 0 && !wanted.has(matched)) matched = borders[matched - 1]!
      return matched
    },
  }
}

/** First place of `piece` in `text` at or after `from`; -1 if there is none. Linear in both, always. */
export function placeOf(text: string, piece: string, from: number): number {
  if (piece.length > text.length - from) return -1
  const at = (q: number): number => piece.charCodeAt(q)
  const borders = new Int32Array(piece.length)
  extendBorders(borders, at, 0, piece.length)
  const end = scan(text, borders, at, from, 0, piece.length)
  return end < 0 ? -1 : end - piece.length
}

function extendBorders(borders: Int32Array, at: (q: number) => number, from: number, to: number): void {
  for (let q = Math.max(1, from); q < to; q++) {
    const c = at(q)
    let k = borders[q - 1]!
    while (k > 0 && at(k) !== c) k = borders[k - 1]!
    borders[q] = at(k) === c ? k + 1 : 0
  }
  if (from === 0 && to > 0) borders[0] = 0
}

/** Where the first whole match ends; -1 if there is none. `matched` characters end at `from` already. */
function scan(
  text: string,
  borders: Int32Array,
  at: (q: number) => number,
  from: number,
  matched: number,
  wanted: number,
): number {
  if (matched === wanted) return from
  for (let i = from; i < text.length; i++) {
    const c = text.charCodeAt(i)
    while (matched > 0 && at(matched) !== c) matched = borders[matched - 1]!
    if (at(matched) === c) matched++
    if (matched === wanted) return i + 1
  }
  return -1
}

/** How much of the pattern the text ends with, from behind a whole match on. */
function walkToEnd(
  text: string,
  borders: Int32Array,
  at: (q: number) => number,
  from: number,
  length: number,
  border: number,
): number {
  let matched = border
  for (let i = from; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (matched === length) matched = border
    while (matched > 0 && at(matched) !== c) matched = borders[matched - 1]!
    if (at(matched) === c) matched++
  }
  return matched
}
