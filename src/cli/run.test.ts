import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { MINIMAL_CONFIG, useConfigFiles } from '../../test/_support/config.ts'
import { loadConfig } from '../config/load.ts'
import { createAuthenticator } from '../identity/authenticator.ts'
import { ShojiError } from '../lib/error.ts'
import { type CliCommands, runCli } from './run.ts'

const { path, write } = useConfigFiles()

const run = async (
  argv: string[],
  env: Record<string, string> = {},
  overrides: Partial<CliCommands> = {},
) => {
  const out: string[] = []
  const err: string[] = []
  const calls: unknown[] = []
  const called =
    (name: string) =>
    async (request: unknown): Promise<number> => {
      calls.push([name, request])
      return 7
    }
  const code = await runCli(
    argv,
    {
      stdout: { write: (text: string) => out.push(text) },
      stderr: { write: (text: string) => err.push(text) },
      env,
      signal: new AbortController().signal,
    },
    {
      version: '1.2.3',
      serve: called('serve'),
      demo: called('demo'),
      journal: {
        stats: called('stats'),
        verify: called('verify'),
        backup: called('backup'),
        export: called('export'),
      },
      ...overrides,
    },
  )
  return { code, out: out.join(''), err: err.join(''), calls }
}

describe('config check', () => {
  it('prints the effective values with secrets hidden', async () => {
    const file = await write('shoji.yaml', MINIMAL_CONFIG.replace(' }', ', token: "\u0024{env:RT}" }'))
    const { code, out, err } = await run(['config', 'check', '--config', file], { RT: 's3cret-token' })
    expect([code, err]).toEqual([0, ''])
    expect(out).toContain('token: "[secret]"')
    expect(out).toContain('heartbeat_ms: 15000')
    expect(out).not.toContain('s3cret')
  })

  it('ends with 2 and one line for everything wrong', async () => {
    const file = await write('shoji.yaml', `${MINIMAL_CONFIG}listen: { port: x }\nextra: 1\n`)
    expect(await run(['config', 'check', '-c', file])).toMatchObject({
      code: 2,
      out: '',
      err: `${file}:4:17 listen.port: expected a whole number from 0 to 65535\n${file}:5:1 extra: unknown key\n`,
    })
  })

  it('ends with 2 where the file is not there, and where its policy is wrong', async () => {
    expect(await run(['config', 'check', '-c', path('none')])).toMatchObject({
      code: 2,
      err: `${path('none')}:1:1 document: no such file\n`,
    })
    const file = await write('shoji.yaml', `${MINIMAL_CONFIG}policy: { file: policy.yaml }\n`)
    const policy = await write('policy.yaml', 'version: 2')
    expect(await run(['config', 'check', '-c', file])).toMatchObject({
      code: 2,
      err: `${policy}:1:10 version: expected 1\n`,
    })
  })
})

describe('policy check', () => {
  it('says that a policy is valid, with its hash', async () => {
    const file = await write('policy.yaml', 'version: 1')
    const { code, out } = await run(['policy', 'check', file])
    expect(code).toBe(0)
    expect(out).toMatch(/^valid: 0 statements, [0-9a-f]{64}\n$/)
  })

  it('tells what is likely a mistake, and is content', async () => {
    const file = await write('policy.yaml', 'version: 1\nresources: { a: { runtime: ["rt*"] } }')
    expect(await run(['policy', 'check', file])).toMatchObject({
      code: 0,
      err: `${file}:2:29 resources.a.runtime[0]: matches only this very name: * is a wildcard only alone (warning)\n`,
    })
  })

  it('ends with 2 and the place of what is wrong', async () => {
    const file = await write(
      'policy.yaml',
      'version: 1\nstatements:\n  - { id: a, who: x, on: "*", cap: {} }\n',
    )
    expect(await run(['policy', 'check', file])).toMatchObject({
      code: 2,
      out: '',
      err: `${file}:3:19 statements[0].who: no such name in subjects\n`,
    })
  })
})

describe('token create', () => {
  it('prints a token and a line that the configuration takes, and that lets the token in', async () => {
    const { code, out } = await run(['token', 'create', '--id', 'ana', '--roles', 'operator,viewer'])
    expect(code).toBe(0)
    const token = /shj_[\w-]{43}/.exec(out)?.[0]
    const entry = /- (\{.*\})/.exec(out)?.[1]
    const file = await write(
      'shoji.yaml',
      MINIMAL_CONFIG.replace('mode: none', `mode: tokens, tokens: [${entry}]`),
    )
    const config = await loadConfig({ file, env: {} })
    const headers = new Headers({ authorization: `Bearer ${token}` })
    expect(createAuthenticator(config.auth, { now: Date.now }).authenticate(headers)).toMatchObject({
      user: 'ana',
      roles: ['operator', 'viewer'],
    })
  })

  it('makes none for a name that the configuration would refuse', async () => {
    for (const argv of [
      ['--id', 'a b'],
      ['--id', 'a', '--roles', 'x,'],
      ['--id', '*'],
    ]) {
      const { code, out } = await run(['token', 'create', ...argv])
      expect([code, out]).toEqual([2, ''])
    }
  })
})

describe('what is run elsewhere', () => {
  it('serve gets the loaded configuration, and its exit code counts', async () => {
    const file = await write('shoji.yaml', MINIMAL_CONFIG)
    const { code, calls } = await run(['serve', '--config', file])
    expect(code).toBe(7)
    expect(calls).toEqual([['serve', await loadConfig({ file, env: {} })]])
  })

  it('serve is not reached with a configuration that is wrong', async () => {
    const file = await write('shoji.yaml', '')
    const { code, calls } = await run(['serve', '--config', file])
    expect([code, calls]).toEqual([2, []])
  })

  it('demo gets its port, journal commands their configuration and options', async () => {
    const file = await write('shoji.yaml', MINIMAL_CONFIG)
    const config = await loadConfig({ file, env: {} })
    const out = join('x', 'copy.db')
    expect((await run(['demo'])).calls).toEqual([['demo', {}]])
    expect((await run(['demo', '--port', '0'])).calls).toEqual([['demo', { port: 0 }]])
    expect((await run(['journal', 'stats', '-c', file])).calls).toEqual([['stats', { config }]])
    expect((await run(['journal', 'verify', '-c', file])).calls).toEqual([['verify', { config }]])
    expect((await run(['journal', 'backup', '-c', file, '--out', out])).calls).toEqual([
      ['backup', { config, out }],
    ])
    expect((await run(['journal', 'export', '-c', file, '--worker', 'rt/w'])).calls).toEqual([
      ['export', { config, worker: 'rt/w' }],
    ])
  })

  it('a typed error ends with 1 and its code', async () => {
    const file = await write('shoji.yaml', MINIMAL_CONFIG)
    const serve = async (): Promise<number> => {
      throw new ShojiError('data_dir_locked', 'another server holds the data directory')
    }
    expect(await run(['serve', '-c', file], {}, { serve })).toMatchObject({
      code: 1,
      err: 'shoji: data_dir_locked: another server holds the data directory\n',
    })
  })
})

describe('the command line', () => {
  it('has help and a version', async () => {
    expect(await run(['--version'])).toMatchObject({ code: 0, out: '1.2.3\n' })
    for (const argv of [['--help'], ['-h'], ['serve', '--help']]) {
      const { code, out } = await run(argv)
      expect(code).toBe(0)
      expect(out).toContain('shoji serve --config FILE')
    }
  })

  it.each([
    [[], 'a command is missing'],
    [['fly'], 'unknown command: fly'],
    [['config'], 'unknown command: config'],
    [['config', 'show'], 'unknown command: config show'],
    [['toString'], 'unknown command: toString'],
    [['serve'], 'serve needs --config FILE'],
    [['config', 'check'], 'config check needs --config FILE'],
    [['serve', 'x', '-c', 'f'], 'serve takes no further words'],
    [['policy', 'check'], 'policy check takes one file'],
    [['policy', 'check', 'a', 'b'], 'policy check takes one file'],
    [['policy', 'check', 'a', '-c', 'f'], 'policy check has no option --config'],
    [['token', 'create'], 'token create needs --id USER'],
    [['demo', '--port', '70000'], '--port takes a number from 0 to 65535'],
    [['journal', 'stats'], 'journal stats needs --config FILE'],
    [['journal', 'backup', '-c', 'f'], 'journal backup needs --out FILE'],
    [['journal', 'export', '-c', 'f'], 'journal export needs --worker RUNTIME/WORKER'],
    [['serve', '--conf', 'f'], "Unknown option '--conf'"],
    [['serve', '--config'], "Option '-c, --config <value>' argument missing"],
  ])('%j ends with 2, the reason and the help', async (argv, reason) => {
    const { code, out, err, calls } = await run(argv)
    expect([code, out, calls]).toEqual([2, '', []])
    expect(err.startsWith(`shoji: ${reason}`), err).toBe(true)
    expect(err).toContain('shoji policy check FILE')
  })
})
