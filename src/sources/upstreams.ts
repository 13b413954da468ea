import type { StatusChange } from './source.ts'

/** The last word on every connection upstream, by runtime and worker. */
export interface Upstreams {
  set(change: StatusChange): void
  get(runtime: string, worker?: string): StatusChange | undefined
  all(): readonly StatusChange[]
  onChange(listener: (change: StatusChange) => void): () => void
}

export function createUpstreams(): Upstreams {
  const changes = new Map<string, StatusChange>()
  const listeners = new Set<(change: StatusChange) => void>()
  const nameOf = (runtime: string, worker?: string): string => `${runtime}\u0000${worker ?? ''}`
  return {
    set(change) {
      const name = nameOf(change.runtime, change.worker)
      const before = changes.get(name)
      if (before?.upstream === change.upstream && before.code === change.code) return
      changes.set(name, change)
      for (const listener of listeners) listener(change)
    },
    get: (runtime, worker) => changes.get(nameOf(runtime, worker)),
    all: () => [...changes.values()],
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
