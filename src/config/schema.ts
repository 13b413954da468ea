/**
 * The configuration file: every key with its default and bounds. `docs/configuration.md` names each of them,
 * and a test holds the two together.
 */
import { CLASSES, HEARTBEAT_MS, HISTORY_ITEMS } from '@shoji/web-contract'
import { z } from 'zod'
import { Secret } from '../lib/secret.ts'
import { RIGHTS } from './rights.ts'
import {
  duration,
  hostHeader,
  hostName,
  instant,
  name,
  oneOf,
  origin,
  path,
  runtimeId,
  runtimeUrl,
  sha256,
  size,
  whole,
} from './scalars.ts'

const secret = () =>
  z
    .string()
    .min(1)
    .max(8192)
    .transform(value => new Secret(value))

const names = () => z.array(name()).max(256).prefault([])

const runtime = z.strictObject({
  id: runtimeId(),
  url: runtimeUrl(),
  token: secret().optional(),
  dialect: oneOf(['auto', 'events-ws', 'protocol-ws']).prefault('auto'),
  workers: oneOf(['discover']).prefault('discover'),
})

const token = z.strictObject({
  id: name(),
  sha256: sha256(),
  roles: names(),
  groups: names(),
  expires: instant().optional(),
})

const auth = z.strictObject({
  mode: oneOf(['none', 'tokens']),
  local: z.strictObject({ roles: names(), groups: names() }).optional(),
  tokens: z.array(token).max(10_000).prefault([]),
  rights: z
    .record(
      z.string().regex(/^[A-Za-z0-9][\w.:@/+-]{0,127}$/, 'expected the name of a role'),
      z.array(oneOf(RIGHTS)).max(RIGHTS.length),
    )
    .prefault({}),
})

/** One schema a top-level key, so that a mistake in one section does not hide those in another. */
export const SECTIONS = {
  listen: z
    .strictObject({
      host: hostName().prefault('127.0.0.1'),
      port: whole({ min: 0, max: 65_535 }).prefault(7420),
    })
    .prefault({}),
  metrics: z
    .strictObject({
      host: hostName().prefault('127.0.0.1'),
      port: whole({ min: 0, max: 65_535 }).prefault(7421),
    })
    .optional(),
  public_origin: origin().optional(),
  hosts: z.array(hostHeader()).max(64).prefault([]),
  data_dir: path().prefault('./data'),
  runtimes: z.array(runtime).min(1, 'at least one Runtime').max(64),
  auth,
  policy: z.strictObject({ file: path().optional() }).prefault({}),
  cors: z.strictObject({ origins: z.array(origin()).max(64).prefault([]) }).prefault({}),
  journal: z
    .strictObject({
      retain: z
        .strictObject({
          age: duration('1m', '3650d').prefault('7d'),
          bytes: size('16MiB', '16TiB').prefault('2GiB'),
          entries: whole({ min: 1_000, max: 1_000_000_000 }).prefault(10_000_000),
        })
        .prefault({}),
      never_store: z.array(oneOf(CLASSES)).max(CLASSES.length).prefault([]),
    })
    .prefault({}),
  limits: z
    .strictObject({
      streams_per_user: whole({ min: 1, max: 10_000 }).prefault(32),
      streams: whole({ min: 1, max: 100_000 }).prefault(10_000),
      // The items of a snapshot take up to 512 KiB, and they stand in one frame.
      frame_bytes: size('768KiB', '1MiB').prefault('1MiB'),
      buffered_bytes: size('768KiB', '64MiB').prefault('1MiB'),
      request_bytes: size('1KiB', '16MiB').prefault('1MiB'),
      commands_per_minute: whole({ min: 1, max: 100_000 }).prefault(60),
      // One event may take 8 MiB, and reading has to go on while it waits.
      ingest_bytes: size('16MiB', '4GiB').prefault('64MiB'),
    })
    .prefault({}),
  stream: z
    .strictObject({
      heartbeat_ms: whole({ min: 50, max: 60_000 }).prefault(HEARTBEAT_MS),
      // With the jitter of a fifth a peer that vanished is let go within 16 minutes.
      rotate_ms: whole({ min: 200, max: 800_000 }).prefault(720_000),
      history: whole(HISTORY_ITEMS).prefault(HISTORY_ITEMS.default),
      stall_ms: whole({ min: 1_000, max: 120_000 }).prefault(30_000),
      write_deadline_ms: whole({ min: 50, max: 60_000 }).prefault(5_000),
    })
    .prefault({}),
  shutdown: z.strictObject({ grace_ms: whole({ min: 100, max: 600_000 }).prefault(10_000) }).prefault({}),
  log: z
    .strictObject({
      level: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).prefault('info'),
    })
    .prefault({}),
} as const

export const configSchema = z.strictObject(SECTIONS)

/** The file's content, parsed: sizes in bytes, times in milliseconds, defaults filled in. */
export type ConfigFile = z.output<typeof configSchema>
