// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are the references
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { MINIMAL_CONFIG, useConfigFiles } from '../../test/_support/config.ts'
import { hiddenValues } from './config.ts'
import { describeConfig } from './describe.ts'

const { write, load, failure } = useConfigFiles()

describe('references to secrets', () => {
  const withToken = (token: string) => `runtimes:
  - id: rt
    url: http://127.0.0.1:7800
    token: ${JSON.stringify(token)}
auth: { mode: none }
`

  it('come from the environment and from files, also in the middle of a text', async () => {
    await write('token', 's3cret-file\r\n')
    const config = await load(withToken('a-${env:RT}-${file:token}'), { RT: 's3cret-env' })
    expect(config.runtimes[0]?.token?.reveal()).toBe('a-s3cret-env-s3cret-file')
    expect(config.secrets.map(({ path, secret }) => [path, secret.reveal()])).toEqual([
      ['runtimes[0].token', 's3cret-env'],
      ['runtimes[0].token', 's3cret-file'],
    ])
  })

  it('bring in a value once: what it holds is not looked up again', async () => {
    const config = await load(withToken('${env:A}'), { A: '${env:B}', B: 'no' })
    expect(config.runtimes[0]?.token?.reveal()).toBe('${env:B}')
  })

  it('may give a port', async () => {
    const config = await load(`${MINIMAL_CONFIG}listen: { port: "\${env:PORT}" }`, { PORT: '8080' })
    expect(config.listen.port).toBe(8080)
  })

  it('are not references behind a second dollar sign', async () => {
    const config = await load(withToken('$${env:A}$'), {})
    expect(config.runtimes[0]?.token?.reveal()).toBe('${env:A}$')
    expect(config.secrets).toEqual([])
  })

  it.each([
    ['${env:NONE}', 'the environment has no NONE'],
    ['${env:toString}', 'the environment has no toString'],
    ['${env:EMPTY}', 'EMPTY is empty in the environment'],
    ['${file:none}', 'the file none cannot be read: no such file'],
    ['${file:.}', 'the file . cannot be read: is a directory'],
    ['${file:/dev/zero}', 'the file /dev/zero cannot be read: larger than 65536 bytes'],
    ['${file:/dev/null}', 'the file /dev/null is empty'],
    ['${vault:x}', 'expected env:NAME or file:path in the braces'],
    ['${RT}', 'expected env:NAME or file:path in the braces'],
    ['${env:NONE', 'a ${ that is not closed'],
  ])('that do not resolve are secret_unresolved with key and line: %s', async (token, message) => {
    const error = await failure(withToken(token), { EMPTY: '' })
    expect(error.code).toBe('secret_unresolved')
    expect(error.issues).toEqual([
      { code: 'secret_unresolved', path: 'runtimes[0].token', line: 4, column: 12, message },
    ])
  })

  it('are never shown: not by the description, not by printing, not by an error', async () => {
    const env = { RT: 's3cret-token', URL: 'http://127.0.0.1:7777', PORT: 's3cret-port' }
    const text = `${withToken('${env:RT}').replace('http://127.0.0.1:7800', '${env:URL}')}`
    const config = await load(text, env)
    const shown = [
      describeConfig(config),
      JSON.stringify(config.secrets),
      inspect(config.secrets, { depth: 9 }),
    ].join()
    expect(shown).not.toContain('s3cret')
    expect(shown).not.toContain('7777')
    expect(describeConfig(config)).toContain('url: "[secret]"')
    const error = await failure(`${text}listen: { port: "\${env:PORT}" }`, env)
    expect(`${error.message}${inspect(error, { depth: 9 })}`).not.toContain('s3cret')
  })

  it('and the places of Runtimes are what no log may hold', async () => {
    const text = withToken('literal-token').replace('127.0.0.1', 'rt.internal')
    expect(hiddenValues(await load(text)).map(secret => secret.reveal())).toEqual([
      'literal-token',
      'rt.internal:7800',
      'rt.internal',
    ])
  })
})
