import { describe, expect, it } from 'vitest'
import { MINIMAL_CONFIG, useConfigFiles } from '../../test/_support/config.ts'

const HASH = 'a'.repeat(64)
const { path, failure, wrong } = useConfigFiles()

describe('what is wrong with a configuration', () => {
  const invalid = (issue: string) => [`config_invalid ${issue}`]

  it.each([
    ['an empty file', '', 'empty; expected a mapping'],
    ['a list', '- a', 'expected a mapping'],
    ['a text', 'hello', 'expected a mapping'],
  ])('%s', async (_name, text, message) => {
    expect(await wrong(text)).toEqual(invalid(`1:1 : ${message}`))
  })

  it.each([
    ['an unknown key', 'audit: { key: x }', '4:1 audit: unknown key'],
    ['an unknown nested key', 'listen:\n  host: ::1\n  prot: 1', '6:3 listen.prot: unknown key'],
    ['a key of a later version', 'policy: { pin: abc }', '4:11 policy.pin: unknown key'],
    ['__proto__', '__proto__: { x: 1 }', '4:1 __proto__: unknown key'],
    ['a key twice', 'log: {}\nlog: {}', '5:1 log: the same key twice'],
    [
      'a port out of range',
      'listen: { port: 65536 }',
      '4:17 listen.port: expected a whole number from 0 to 65535',
    ],
    ['a fraction', 'listen: { port: 1.5 }', '4:17 listen.port: expected a whole number from 0 to 65535'],
    ['an empty section', 'listen:', '4:8 listen: empty; expected a mapping'],
    ['an empty value', 'listen: { host: }', '4:17 listen.host: expected a host name or an address'],
    [
      'a host that is none',
      'listen: { host: "a b" }',
      '4:17 listen.host: expected a host name or an address',
    ],
    [
      'a size without unit',
      'limits: { ingest_bytes: 64 }',
      '4:25 limits.ingest_bytes: expected a size from 16MiB to 4GiB',
    ],
    [
      'a size below its bound',
      'limits: { ingest_bytes: 1B }',
      '4:25 limits.ingest_bytes: expected a size from 16MiB to 4GiB',
    ],
    [
      'a duration that is none',
      'journal: { retain: { age: 7w } }',
      '4:27 journal.retain.age: expected a duration from 1m to 3650d',
    ],
    [
      'an unknown class',
      'journal: { never_store: [thoughts] }',
      '4:26 journal.never_store[0]: expected one of user_input, assistant_text, thinking, tool_call, tool_args, tool_output, diagnostics, system, workspace, usage, lifecycle, unknown',
    ],
    [
      'an origin with a path',
      'public_origin: "http://localhost:1/x"',
      '4:16 public_origin: expected an origin such as https://ui.example, without a path',
    ],
    [
      'a wildcard origin',
      'cors: { origins: ["*"] }',
      '4:19 cors.origins[0]: expected an origin such as https://ui.example, without a path',
    ],
    [
      'the null origin',
      'cors: { origins: ["null"] }',
      '4:19 cors.origins[0]: expected an origin such as https://ui.example, without a path',
    ],
    [
      'a host with a scheme',
      'hosts: ["http://x"]',
      '4:9 hosts[0]: expected a host name, with or without a port',
    ],
    [
      'an unknown log level',
      'log: { level: loud }',
      '4:15 log.level: expected one of trace, debug, info, warn, error, fatal, silent',
    ],
  ])('%s', async (_name, line, issue) => {
    expect(await wrong(`${MINIMAL_CONFIG}${line}\n`)).toEqual(invalid(issue))
  })

  it.each([
    ['no Runtimes', 'runtimes: []', '1:11 runtimes: at least one Runtime'],
    ['Runtimes left out', '', '2:1 runtimes: required: a list'],
    ['a URL left out', 'runtimes: [{ id: a }]', '1:12 runtimes[0].url: required: an http or https URL'],
    [
      'a WebSocket URL',
      'runtimes: [{ id: a, url: "ws://x" }]',
      '1:26 runtimes[0].url: expected an http or https URL',
    ],
    [
      'a URL with credentials',
      'runtimes: [{ id: a, url: "http://u:hunter2@x" }]',
      '1:26 runtimes[0].url: expected a URL without credentials: use token',
    ],
    [
      'a URL with a query',
      'runtimes: [{ id: a, url: "http://x/?token=hunter2" }]',
      '1:26 runtimes[0].url: expected a URL without query or fragment',
    ],
    [
      'an id with a slash',
      'runtimes: [{ id: a/b, url: "http://x" }]',
      '1:18 runtimes[0].id: expected an id of at most 64 of A-Z a-z 0-9 _ . : + -, that begins with a letter or digit',
    ],
    [
      'an id that a path would swallow',
      'runtimes: [{ id: .., url: "http://x" }]',
      '1:18 runtimes[0].id: expected an id of at most 64 of A-Z a-z 0-9 _ . : + -, that begins with a letter or digit',
    ],
    [
      'an unknown dialect',
      'runtimes: [{ id: a, url: "http://x", dialect: ws }]',
      '1:47 runtimes[0].dialect: expected one of auto, events-ws, protocol-ws',
    ],
    [
      'one id twice',
      'runtimes: [{ id: a, url: "http://x" }, { id: a, url: "http://y" }]',
      '1:46 runtimes[1].id: the same as in runtimes[0]',
    ],
  ])('%s', async (_name, line, issue) => {
    expect(await wrong(`${line}\nauth: { mode: none }\n`)).toEqual(invalid(issue))
  })

  const runtimes = 'runtimes: [{ id: a, url: "http://x" }]\n'
  it.each([
    ['no mode', 'auth: {}', '2:1 auth.mode: required: one of none, tokens'],
    ['a mode of a later version', 'auth: { mode: jwt }', '2:15 auth.mode: expected one of none, tokens'],
    [
      'mode tokens without any',
      'auth: { mode: tokens }',
      '2:15 auth.mode: nobody could sign in: auth.tokens is empty',
    ],
    [
      'a hash that is none',
      'auth: { mode: tokens, tokens: [{ id: a, sha256: abc }] }',
      '2:49 auth.tokens[0].sha256: expected a SHA-256 as 64 hex digits',
    ],
    [
      'a user twice',
      `auth: { mode: tokens, tokens: [{ id: a, sha256: ${HASH} }, { id: a, sha256: ${'b'.repeat(64)} }] }`,
      '2:123 auth.tokens[1].id: the same as in auth.tokens[0]',
    ],
    [
      'a token twice',
      `auth: { mode: tokens, tokens: [{ id: a, sha256: ${HASH} }, { id: b, sha256: ${HASH} }] }`,
      '2:134 auth.tokens[1].sha256: the same as in auth.tokens[0]',
    ],
    [
      'a day that does not exist',
      `auth: { mode: tokens, tokens: [{ id: a, sha256: ${HASH}, expires: 2027-02-30 }] }`,
      '2:124 auth.tokens[0].expires: expected a date (2027-01-01) or a time with its zone (2027-01-01T12:00:00Z)',
    ],
    [
      'a time without zone',
      `auth: { mode: tokens, tokens: [{ id: a, sha256: ${HASH}, expires: "2027-01-01T00:00:00" }] }`,
      '2:124 auth.tokens[0].expires: expected a date (2027-01-01) or a time with its zone (2027-01-01T12:00:00Z)',
    ],
    [
      'a right that is none',
      'auth: { mode: none, rights: { admin: [policy] } }',
      '2:39 auth.rights.admin[0]: expected one of policy:read, policy:write, policy:activate, raw:preview, unscrubbed, audit:read, connections:revoke, metrics:read, journal:purge',
    ],
    [
      'a role that is no name',
      'auth: { mode: none, rights: { "*": [] } }',
      '2:31 auth.rights["*"]: expected the name of a role',
    ],
    [
      'local in mode tokens',
      `auth: { mode: tokens, local: {}, tokens: [{ id: a, sha256: ${HASH} }] }`,
      '2:30 auth.local: has no meaning in mode tokens',
    ],
    [
      'tokens in mode none',
      `auth: { mode: none, tokens: [{ id: a, sha256: ${HASH} }] }`,
      '2:29 auth.tokens: has no meaning in mode none',
    ],
    [
      'mode none on every address',
      'auth: { mode: none }\nlisten: { host: 0.0.0.0 }',
      '3:17 listen.host: mode none serves loopback only',
    ],
    [
      'mode none on :: ',
      'auth: { mode: none }\nlisten: { host: "::" }',
      '3:17 listen.host: mode none serves loopback only',
    ],
    [
      'mode none behind a public name',
      'auth: { mode: none }\npublic_origin: https://shoji.example',
      '3:16 public_origin: mode none serves loopback only',
    ],
    [
      'mode none under another host',
      'auth: { mode: none }\nhosts: [localhost, "shoji.example:80"]',
      '3:20 hosts[1]: mode none serves loopback only',
    ],
  ])('%s', async (_name, lines, issue) => {
    expect(await wrong(`${runtimes}${lines}\n`)).toEqual(invalid(issue))
  })

  it.each([
    [
      'a heartbeat not below the shortest lifetime',
      'stream: { heartbeat_ms: 800, rotate_ms: 1000 }',
      '4:25 stream.heartbeat_ms: must be below the shortest lifetime of a stream, rotate_ms less 20 %',
    ],
    [
      'a grace not above the write deadline',
      'shutdown: { grace_ms: 5000 }',
      '4:23 shutdown.grace_ms: must be above stream.write_deadline_ms',
    ],
    [
      'more streams for one than for all',
      'limits: { streams: 31 }',
      '4:1 limits.streams_per_user: must not be above limits.streams',
    ],
    [
      'a buffer that holds no frame',
      'limits: { buffered_bytes: 800KiB }',
      '4:27 limits.buffered_bytes: must hold one frame: not below limits.frame_bytes',
    ],
  ])('contradiction: %s', async (_name, line, issue) => {
    expect(await wrong(`${MINIMAL_CONFIG}${line}\n`)).toEqual(invalid(issue))
  })

  it('is told all at once, in order of lines: mistakes, contradictions and secrets', async () => {
    const error = await failure(`listen: { port: x }
runtimes:
  - { id: a, url: "http://x" }
  - { id: a, url: "http://y", token: "\${env:NONE}" }
stream: { heartbeat_ms: 900, rotate_ms: 1000 }
auth: { mode: maybe }
extra: 1
`)
    expect(error.code).toBe('config_invalid')
    expect(error.issues.map(({ code, line, path }) => [code, line, path])).toEqual([
      ['config_invalid', 1, 'listen.port'],
      ['config_invalid', 4, 'runtimes[1].id'],
      ['secret_unresolved', 4, 'runtimes[1].token'],
      ['config_invalid', 5, 'stream.heartbeat_ms'],
      ['config_invalid', 6, 'auth.mode'],
      ['config_invalid', 7, 'extra'],
    ])
    expect(error.message.split('\n')[0]).toBe(
      `${path('shoji.yaml')}:1:17 listen.port: expected a whole number from 0 to 65535`,
    )
  })
})
