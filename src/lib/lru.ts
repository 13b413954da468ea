/** A map that forgets what was not asked for longest once it holds `max` entries. */
export interface Lru<K, V> {
  /** The kept value, or that of `make`, which is then kept. */
  get(key: K, make: () => V): V
  readonly size: number
}

export const createLru = <K, V>(max: number): Lru<K, V> => {
  /** A `Map` keeps the order of insertion: what is used is inserted anew, so the first is the oldest. */
  const entries = new Map<K, { readonly value: V }>()
  return {
    get: (key, make) => {
      const kept = entries.get(key)
      entries.delete(key)
      const entry = kept ?? { value: make() }
      entries.set(key, entry)
      const [oldest] = entries.size > max ? entries.keys() : []
      if (oldest !== undefined) entries.delete(oldest)
      return entry.value
    },
    get size() {
      return entries.size
    },
  }
}
