export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

export const maxOf = (values: readonly number[]): number => Math.max(...values)

const BUCKET_US = 100
const BUCKETS = 50_000

/** Latencies up to 5 s in steps of 0.1 ms; what is longer counts as 5 s. */
export class Latencies {
  readonly #counts = new Float64Array(BUCKETS)
  #total = 0

  add(us: number, weight = 1): void {
    const bucket = Math.min(BUCKETS - 1, Math.max(0, Math.floor(us / BUCKET_US)))
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + weight
    this.#total += weight
  }

  get total(): number {
    return this.#total
  }

  /** The upper end of the bucket in which the quantile lies, in milliseconds; NaN where nothing was added. */
  quantileMs(q: number): number {
    if (this.#total === 0) return Number.NaN
    let seen = 0
    for (let bucket = 0; bucket < BUCKETS; bucket += 1) {
      seen += this.#counts[bucket] ?? 0
      if (seen >= q * this.#total) return ((bucket + 1) * BUCKET_US) / 1000
    }
    return (BUCKETS * BUCKET_US) / 1000
  }

  clear(): void {
    this.#counts.fill(0)
    this.#total = 0
  }
}

const group = (n: number): string => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ',')

/** A number with as many digits as mean something. */
export const show = (n: number): string =>
  !Number.isFinite(n) ? 'n/a' : Math.abs(n) >= 100 ? group(n) : n.toFixed(Math.abs(n) >= 10 ? 1 : 2)
