import { stringify } from 'yaml'
import { Secret } from '../lib/secret.ts'
import { formatPath, type Path } from '../lib/yaml.ts'
import type { Config } from './config.ts'
import { formatBytes, formatDuration } from './units.ts'

/**
 * The effective values in the file's own vocabulary, as YAML. Secrets, and whatever a reference brought in,
 * are `[secret]`; without any, loading the text gives the same configuration.
 */
export const describeConfig = (config: Config): string => {
  const secretPaths = new Set(config.secrets.map(({ path }) => path))
  const hide = (value: unknown, path: Path): unknown => {
    if (value instanceof Secret || secretPaths.has(formatPath(path))) return String(new Secret(''))
    if (typeof value === 'string') return value.replaceAll('${', () => '$${')
    if (Array.isArray(value)) return value.map((item, index) => hide(item, [...path, index]))
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, hide(item, [...path, key])]))
  }
  return stringify(hide(toFile(config), []), { lineWidth: 0, aliasDuplicateObjects: false })
}

const toFile = ({ listen, auth, journal, limits, stream, ...config }: Config): Record<string, unknown> => ({
  listen,
  ...(config.publicOrigin === undefined ? {} : { public_origin: config.publicOrigin }),
  hosts: config.hosts,
  data_dir: config.dataDir,
  runtimes: config.runtimes,
  auth: {
    mode: auth.mode,
    ...(auth.mode === 'none'
      ? { local: auth.local }
      : {
          tokens: auth.tokens.map(({ expiresAt, ...token }) => ({
            ...token,
            ...(expiresAt === undefined ? {} : { expires: new Date(expiresAt).toISOString() }),
          })),
        }),
    rights: auth.rights,
  },
  policy: config.policy,
  cors: config.cors,
  journal: {
    retain: {
      age: formatDuration(journal.retain.ageMs),
      bytes: formatBytes(journal.retain.maxBytes),
      entries: journal.retain.maxEntries,
    },
    never_store: journal.neverStore,
  },
  limits: {
    streams_per_user: limits.streamsPerUser,
    streams: limits.streams,
    frame_bytes: formatBytes(limits.maxFrameBytes),
    buffered_bytes: formatBytes(limits.maxBufferedBytes),
    request_bytes: formatBytes(limits.maxRequestBytes),
    commands_per_minute: limits.commandsPerMinute,
    ingest_bytes: formatBytes(limits.maxIngestBytes),
  },
  stream: {
    heartbeat_ms: stream.heartbeatMs,
    rotate_ms: stream.rotateMs,
    history: stream.historyItems,
    stall_ms: stream.stallMs,
    write_deadline_ms: stream.writeDeadlineMs,
  },
  shutdown: { grace_ms: config.shutdown.graceMs },
  log: config.log,
})
