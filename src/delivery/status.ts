import type { StatusChange } from '../sources/source.ts'
import { encodeFrame } from './frames.ts'
import { type Audience, selects } from './selection.ts'

/** A status frame. It has no id: it speaks of a connection upstream, not of a place in the journal. */
export function statusText({ runtime, worker, upstream, since, code }: StatusChange): string {
  return encodeFrame('status', {
    runtime,
    ...(worker !== undefined && { worker }),
    upstream,
    since,
    ...(code !== undefined && { code }),
  })
}

/** A Runtime's own state concerns everyone who sees it or a worker of it; a worker's those who see that one. */
export function concerns(audience: Audience, change: StatusChange): boolean {
  if (change.worker === undefined) return runtimesOf(audience).has(change.runtime)
  const at = { runtime: change.runtime, worker: change.worker }
  if (!selects(audience.selection, at)) return false
  for (const { place } of audience.streams.values())
    if (place.runtime === at.runtime && place.worker === at.worker) return true
  return audience.policy.view(audience.subject, { source: 'runtime', profile: null, ...at }).observe
}

/** Those of which the audience sees a worker, and the one it asked for by name: that much it knows already. */
export const runtimesOf = ({ selection, streams }: Audience): Set<string> =>
  new Set([
    ...(selection.kind === 'runtime' ? [selection.runtime] : []),
    ...[...streams.values()].map(s => s.record.runtime),
  ])
