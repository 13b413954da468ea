import { describe, expect, it } from 'vitest'
import { MINIMAL_CONFIG, useConfigFiles } from '../../test/_support/config.ts'
import { describeConfig } from './describe.ts'
import { loadConfig } from './load.ts'

const HASH = 'a'.repeat(64)
const { path, load, wrong } = useConfigFiles()

describe('a configuration', () => {
  it('has a default for all but its Runtimes and its mode', async () => {
    expect(await load(MINIMAL_CONFIG)).toEqual({
      file: path('shoji.yaml'),
      listen: { host: '127.0.0.1', port: 7420 },
      hosts: [],
      dataDir: path('data'),
      runtimes: [{ id: 'rt', url: 'http://127.0.0.1:7800', dialect: 'auto', workers: 'discover' }],
      auth: { mode: 'none', rights: {}, local: { roles: [], groups: [] } },
      policy: {},
      cors: { origins: [] },
      journal: { retain: { ageMs: 604_800_000, maxBytes: 2 ** 31, maxEntries: 10_000_000 }, neverStore: [] },
      limits: {
        streamsPerUser: 32,
        streams: 10_000,
        maxFrameBytes: 2 ** 20,
        maxBufferedBytes: 2 ** 20,
        maxRequestBytes: 2 ** 20,
        commandsPerMinute: 60,
        maxIngestBytes: 2 ** 26,
      },
      stream: {
        heartbeatMs: 15_000,
        rotateMs: 720_000,
        historyItems: 100,
        stallMs: 30_000,
        writeDeadlineMs: 5_000,
      },
      shutdown: { graceMs: 10_000 },
      log: { level: 'info' },
      secrets: [],
    })
  })

  it('is the same from JSON', async () => {
    const json = JSON.stringify(
      { runtimes: [{ id: 'rt', url: 'http://127.0.0.1:7800' }], auth: { mode: 'none' } },
      null,
      '\t',
    )
    const [fromJson, fromYaml] = [await load(json), await load(MINIMAL_CONFIG)]
    expect(fromJson).toEqual(fromYaml)
  })

  it('reads tokens, rights, sizes and dates', async () => {
    const config = await load(`
public_origin: https://shoji.example
hosts: [Shoji.Internal, "[::1]:7420"]
listen: { host: 0.0.0.0, port: 0 }
data_dir: /srv/shoji
runtimes: [{ id: rt-prod, url: "https://rt.example/base/", dialect: events-ws }]
auth:
  mode: tokens
  tokens:
    - { id: ana, sha256: ${'A'.repeat(64)}, roles: [operator], groups: [team/a], expires: 2027-01-01 }
    - { id: ben, sha256: ${HASH.replace('a', 'b')}, expires: "2027-01-01T01:00:00+01:00" }
  rights: { admin: [policy:read, audit:read] }
policy: { file: ../policy.yaml }
cors: { origins: ["https://ui.example"] }
journal: { retain: { age: 36h, bytes: 64MiB, entries: 5000 }, never_store: [thinking] }
limits: { ingest_bytes: 128MiB, buffered_bytes: 2MiB }
stream: { heartbeat_ms: 100, rotate_ms: 1000, history: 0 }
log: { level: debug }
`)
    expect(config).toMatchObject({
      publicOrigin: 'https://shoji.example',
      hosts: ['shoji.internal', '[::1]:7420'],
      listen: { host: '0.0.0.0', port: 0 },
      dataDir: '/srv/shoji',
      runtimes: [{ url: 'https://rt.example/base', dialect: 'events-ws' }],
      auth: {
        mode: 'tokens',
        tokens: [
          {
            id: 'ana',
            sha256: HASH,
            roles: ['operator'],
            groups: ['team/a'],
            expiresAt: Date.UTC(2027, 0, 1),
          },
          { id: 'ben', roles: [], groups: [], expiresAt: Date.UTC(2027, 0, 1) },
        ],
        rights: { admin: ['policy:read', 'audit:read'] },
      },
      policy: { file: path('../policy.yaml') },
      journal: {
        retain: { ageMs: 129_600_000, maxBytes: 2 ** 26, maxEntries: 5000 },
        neverStore: ['thinking'],
      },
      limits: { maxIngestBytes: 2 ** 27, maxBufferedBytes: 2 ** 21 },
      stream: { heartbeatMs: 100, rotateMs: 1000, historyItems: 0 },
    })
  })

  it('is config_unreadable where there is no such file, naming it', async () => {
    const file = path('none.yaml')
    await expect(loadConfig({ file, env: {} })).rejects.toMatchObject({
      code: 'config_unreadable',
      message: `${file}:1:1 document: no such file`,
    })
  })

  it('is refused when larger than 1 MiB', async () => {
    expect(await wrong(`${MINIMAL_CONFIG}# ${'x'.repeat(2 ** 20)}`)).toEqual([
      'config_unreadable 1:1 : larger than 1048576 bytes',
    ])
  })
})

describe('the description of a configuration', () => {
  it('loads as the same configuration', async () => {
    const config = await load(`${MINIMAL_CONFIG.replace('auth: { mode: none }', '')}
auth:
  mode: tokens
  tokens: [{ id: ana, sha256: ${HASH}, roles: [a], expires: 2027-01-01 }]
  rights: { admin: [policy:read] }
public_origin: https://shoji.example
data_dir: ./$\${odd}
policy: { file: p.yaml }
journal: { retain: { age: 90s, bytes: 17MiB } }
`)
    expect(await load(describeConfig(config))).toEqual(config)
  })

  it('hides a token that stands in the file itself', async () => {
    const config = await load(MINIMAL_CONFIG.replace(' }', ', token: s3cret }'))
    expect(describeConfig(config)).not.toContain('s3cret')
    expect(config.runtimes[0]?.token?.reveal()).toBe('s3cret')
  })
})
