/** Sorted runs of one stream's seqs, fetched a piece at a time. */
export type FetchSeqs = (stream: number, after: number, limit: number) => readonly number[]

interface Run {
  readonly stream: number
  seqs: readonly number[]
  at: number
  /** Size of the next piece; a piece that was not full was the last. */
  limit: number
  more: boolean
}

const FIRST_PIECE_MIN = 4
const PIECE_GROWTH = 4

const headOf = (run: Run): number => run.seqs[run.at] ?? Number.POSITIVE_INFINITY

/** Restores the heap below `at`: the run with the smallest next seq is at 0. */
const sink = (heap: Run[], at: number): void => {
  const run = heap[at]
  if (run === undefined) return
  const key = headOf(run)
  for (let hole = at; ; ) {
    let child = 2 * hole + 1
    let least = heap[child]
    const right = heap[child + 1]
    if (right !== undefined && least !== undefined && headOf(right) < headOf(least)) {
      child++
      least = right
    }
    if (least === undefined || headOf(least) >= key) {
      heap[hole] = run
      return
    }
    heap[hole] = least
    hole = child
  }
}

/**
 * The smallest `max` seqs of several sorted streams that lie after their positions, in order. It costs a
 * seek a stream and a step a seq, whatever lies between them.
 */
export const mergeSeqs = (
  streams: readonly { readonly stream: number; readonly after: number }[],
  max: number,
  fetch: FetchSeqs,
): { readonly seqs: number[]; readonly exhausted: boolean } => {
  const piece = Math.min(max, Math.max(FIRST_PIECE_MIN, Math.ceil((2 * max) / Math.max(1, streams.length))))
  const heap: Run[] = []
  for (const { stream, after } of streams) {
    const seqs = fetch(stream, after, piece)
    if (seqs.length > 0) heap.push({ stream, seqs, at: 0, limit: piece, more: seqs.length === piece })
  }
  for (let at = heap.length >> 1; at >= 0; at--) sink(heap, at)
  const merged: number[] = []
  for (let run = heap[0]; run !== undefined && merged.length < max; run = heap[0]) {
    const seq = headOf(run)
    merged.push(seq)
    run.at++
    if (run.at === run.seqs.length && run.more) {
      run.limit = Math.min(max, run.limit * PIECE_GROWTH)
      run.seqs = fetch(run.stream, seq, run.limit)
      run.at = 0
      run.more = run.seqs.length === run.limit
    }
    if (run.at === run.seqs.length) {
      const last = heap.pop()
      if (last === undefined || heap.length === 0) break
      if (last !== run) heap[0] = last
    }
    sink(heap, 0)
  }
  return { seqs: merged, exhausted: heap.length === 0 }
}
