/** The effective configuration, as the rest of the program sees it. */
import { dirname, resolve } from 'node:path'
import type { Class } from '@shoji/web-contract'
import { isLoopback } from '../lib/loopback.ts'
import { Secret } from '../lib/secret.ts'
import type { Right } from './rights.ts'
import type { ConfigFile } from './schema.ts'

interface RuntimeConfig {
  readonly id: string
  /** Without a slash at its end. */
  readonly url: string
  readonly token?: Secret
  readonly dialect: 'auto' | 'events-ws' | 'protocol-ws'
  readonly workers: 'discover'
}

export interface TokenConfig {
  /** The user it stands for. */
  readonly id: string
  /** Lower-case hex of the whole token, prefix included. */
  readonly sha256: string
  readonly roles: readonly string[]
  readonly groups: readonly string[]
  readonly expiresAt?: number
}

export type AuthConfig = {
  readonly rights: Readonly<Record<string, readonly Right[]>>
} & (
  | {
      readonly mode: 'none'
      readonly local: { readonly roles: readonly string[]; readonly groups: readonly string[] }
    }
  | { readonly mode: 'tokens'; readonly tokens: readonly TokenConfig[] }
)

export interface Config {
  /** Absolute path of the file it came from. */
  readonly file: string
  readonly listen: { readonly host: string; readonly port: number }
  /** Absent: metrics are not served. */
  readonly metrics?: { readonly host: string; readonly port: number }
  readonly publicOrigin?: string
  /** `Host` values that are accepted beside that of the public origin, lower case. */
  readonly hosts: readonly string[]
  readonly dataDir: string
  readonly runtimes: readonly RuntimeConfig[]
  readonly auth: AuthConfig
  readonly policy: { readonly file?: string }
  readonly cors: { readonly origins: readonly string[] }
  readonly journal: {
    readonly retain: { readonly ageMs: number; readonly maxBytes: number; readonly maxEntries: number }
    readonly neverStore: readonly Class[]
  }
  readonly limits: {
    readonly streamsPerUser: number
    readonly streams: number
    readonly maxFrameBytes: number
    readonly maxBufferedBytes: number
    readonly maxRequestBytes: number
    readonly commandsPerMinute: number
    readonly maxIngestBytes: number
  }
  readonly stream: {
    readonly heartbeatMs: number
    /** Mean lifetime; each one differs by up to a fifth. */
    readonly rotateMs: number
    /** Items in a fresh snapshot unless the request says otherwise. */
    readonly historyItems: number
    /** Unsent bytes unchanged for so long end the connection. */
    readonly stallMs: number
    /** How long the last bytes of a stream that ends may take. */
    readonly writeDeadlineMs: number
  }
  readonly shutdown: { readonly graceMs: number }
  readonly log: { readonly level: LogLevel }
  /** Whatever `${env:…}` and `${file:…}` brought in, and by which key. */
  readonly secrets: readonly { readonly path: string; readonly secret: Secret }[]
}

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent'

/** Values that no log line may hold: the secrets, and where the Runtimes are (unless that is this machine). */
export const hiddenValues = (config: Config): Secret[] => [
  ...config.secrets.map(({ secret }) => secret),
  ...config.runtimes.flatMap(({ url, token }) => {
    const { host, hostname } = new URL(url)
    return [
      ...(token === undefined ? [] : [token]),
      new Secret(host),
      ...(isLoopback(hostname) ? [] : [new Secret(hostname)]),
    ]
  }),
]

/** Paths become absolute, from the file's own directory. */
export const toConfig = (parsed: ConfigFile, file: string, secrets: Config['secrets']): Config => {
  const path = (relative: string): string => resolve(dirname(file), relative)
  const { retain } = parsed.journal
  return {
    file,
    listen: parsed.listen,
    ...(parsed.metrics === undefined ? {} : { metrics: parsed.metrics }),
    ...(parsed.public_origin === undefined ? {} : { publicOrigin: parsed.public_origin }),
    hosts: parsed.hosts,
    dataDir: path(parsed.data_dir),
    runtimes: parsed.runtimes.map(({ token, ...runtime }) => ({
      ...runtime,
      ...(token === undefined ? {} : { token }),
    })),
    auth: toAuth(parsed.auth),
    policy: parsed.policy.file === undefined ? {} : { file: path(parsed.policy.file) },
    cors: parsed.cors,
    journal: {
      retain: { ageMs: retain.age, maxBytes: retain.bytes, maxEntries: retain.entries },
      neverStore: parsed.journal.never_store,
    },
    limits: {
      streamsPerUser: parsed.limits.streams_per_user,
      streams: parsed.limits.streams,
      maxFrameBytes: parsed.limits.frame_bytes,
      maxBufferedBytes: parsed.limits.buffered_bytes,
      maxRequestBytes: parsed.limits.request_bytes,
      commandsPerMinute: parsed.limits.commands_per_minute,
      maxIngestBytes: parsed.limits.ingest_bytes,
    },
    stream: {
      heartbeatMs: parsed.stream.heartbeat_ms,
      rotateMs: parsed.stream.rotate_ms,
      historyItems: parsed.stream.history,
      stallMs: parsed.stream.stall_ms,
      writeDeadlineMs: parsed.stream.write_deadline_ms,
    },
    shutdown: { graceMs: parsed.shutdown.grace_ms },
    log: parsed.log,
    secrets,
  }
}

const toAuth = ({ mode, local, tokens, rights }: ConfigFile['auth']): AuthConfig =>
  mode === 'none'
    ? { mode, rights, local: local ?? { roles: [], groups: [] } }
    : {
        mode,
        rights,
        tokens: tokens.map(({ expires, ...token }) => ({
          ...token,
          ...(expires === undefined ? {} : { expiresAt: expires }),
        })),
      }
