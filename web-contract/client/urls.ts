import type { Selection, WorkerRef } from './types.ts'

/** Names may hold anything; a lone surrogate would make `encodeURIComponent` throw. */
const encode = (name: string): string => encodeURIComponent(name.replace(/\p{Surrogate}/gu, '\ufffd'))

export const workerUrl = (base: string, { runtime, worker }: WorkerRef): string =>
  `${base}/api/runtimes/${encode(runtime)}/workers/${encode(worker)}`

/** The stream of a selection. `cursor` is for a client that can't set headers. */
export function streamUrl(
  base: string,
  selection: Selection,
  query: { history?: number | undefined; cursor?: string | undefined },
): string {
  const pairs = Object.entries(query).flatMap(([key, value]) =>
    value === undefined ? [] : [`${key}=${encode(String(value))}`],
  )
  if ('workers' in selection) {
    const workers = selection.workers.map(w => `worker=${encode(w.runtime)}/${encode(w.worker)}`)
    return `${base}/api/events?${[...workers, ...pairs].join('&')}`
  }
  const path =
    'worker' in selection ? workerUrl(base, selection) : `${base}/api/runtimes/${encode(selection.runtime)}`
  return `${path}/events${pairs.length > 0 ? '?' : ''}${pairs.join('&')}`
}
