/** What no single key shows: values that are each right and cannot hold together. */
import { isLoopback } from '../lib/loopback.ts'
import type { Path } from '../lib/yaml.ts'
import type { ConfigFile } from './schema.ts'

export interface Contradiction {
  readonly path: Path
  readonly message: string
}

/** Sections that did not parse are absent, and what depends on them is not judged. */
export const contradictions = (file: Partial<ConfigFile>): Contradiction[] => [
  ...times(file),
  ...limits(file),
  ...duplicates(['runtimes'], 'id', file.runtimes ?? []),
  ...duplicates(['auth', 'tokens'], 'id', file.auth?.tokens ?? []),
  ...duplicates(['auth', 'tokens'], 'sha256', file.auth?.tokens ?? []),
  ...identity(file),
  ...openMetrics(file),
]

/** The listener of metrics asks for no credentials. */
const openMetrics = ({ metrics }: Partial<ConfigFile>): Contradiction[] =>
  metrics === undefined || isLoopback(metrics.host)
    ? []
    : [{ path: ['metrics', 'host'], message: 'must be a loopback address: metrics ask for no credentials' }]

/** Lifetimes of streams vary by a fifth, so that they don't end together. */
const ROTATION_JITTER = 0.2

const times = ({ stream, shutdown }: Partial<ConfigFile>): Contradiction[] => {
  const found: Contradiction[] = []
  if (stream !== undefined && stream.heartbeat_ms >= stream.rotate_ms * (1 - ROTATION_JITTER)) {
    found.push({
      path: ['stream', 'heartbeat_ms'],
      message: 'must be below the shortest lifetime of a stream, rotate_ms less 20 %',
    })
  }
  if (stream !== undefined && shutdown !== undefined && shutdown.grace_ms <= stream.write_deadline_ms) {
    found.push({ path: ['shutdown', 'grace_ms'], message: 'must be above stream.write_deadline_ms' })
  }
  return found
}

const limits = ({ limits: set }: Partial<ConfigFile>): Contradiction[] => {
  const found: Contradiction[] = []
  if (set !== undefined && set.streams_per_user > set.streams) {
    found.push({ path: ['limits', 'streams_per_user'], message: 'must not be above limits.streams' })
  }
  if (set !== undefined && set.buffered_bytes < set.frame_bytes) {
    found.push({
      path: ['limits', 'buffered_bytes'],
      message: 'must hold one frame: not below limits.frame_bytes',
    })
  }
  return found
}

const duplicates = <K extends string>(
  path: Path,
  key: K,
  items: readonly Readonly<Record<K, string>>[],
): Contradiction[] => {
  const seen = new Map<string, number>()
  return items.flatMap((item, index) => {
    const before = seen.get(item[key])
    if (before === undefined) {
      seen.set(item[key], index)
      return []
    }
    return [{ path: [...path, index, key], message: `the same as in ${path.join('.')}[${before}]` }]
  })
}

const identity = ({ auth, listen, public_origin, hosts }: Partial<ConfigFile>): Contradiction[] => {
  if (auth === undefined) return []
  if (auth.mode === 'tokens') {
    return [
      ...(auth.tokens.length === 0
        ? [{ path: ['auth', 'mode'], message: 'nobody could sign in: auth.tokens is empty' }]
        : []),
      ...(auth.local === undefined
        ? []
        : [{ path: ['auth', 'local'], message: 'has no meaning in mode tokens' }]),
    ]
  }
  // Without credentials whoever reaches the port is `local`: a proxy in front would let in the world.
  const only = 'mode none serves loopback only'
  const found: Contradiction[] = []
  if (auth.tokens.length > 0) found.push({ path: ['auth', 'tokens'], message: 'has no meaning in mode none' })
  if (listen !== undefined && !isLoopback(listen.host))
    found.push({ path: ['listen', 'host'], message: only })
  if (public_origin !== undefined && !isLoopback(new URL(public_origin).hostname)) {
    found.push({ path: ['public_origin'], message: only })
  }
  for (const [index, host] of (hosts ?? []).entries()) {
    if (!isLoopback(host.replace(/:\d+$/, ''))) found.push({ path: ['hosts', index], message: only })
  }
  return found
}
