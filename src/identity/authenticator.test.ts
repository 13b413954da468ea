import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { AuthConfig } from '../config/config.ts'
import { ShojiError } from '../lib/error.ts'
import { createAuthenticator } from './authenticator.ts'
import { rightsOf } from './rights.ts'
import { createToken } from './token.ts'

const NOW = 1_800_000_000_000
const ana = createToken(randomBytes)
const ben = createToken(randomBytes)
const auth: AuthConfig = {
  mode: 'tokens',
  rights: {},
  tokens: [
    { id: 'ana', sha256: ana.sha256, roles: ['operator'], groups: ['g'] },
    { id: 'ben', sha256: ben.sha256, roles: [], groups: [], expiresAt: NOW },
  ],
}

const outcome = (authorization: string | undefined, now = NOW - 1, config: AuthConfig = auth) => {
  const headers = new Headers(authorization === undefined ? {} : { authorization })
  const result = createAuthenticator(config, { now: () => now }).authenticate(headers)
  return result instanceof ShojiError ? result.code : result
}

describe('mode tokens', () => {
  it('knows a user by the token, with roles, groups and end', () => {
    expect(outcome(`Bearer ${ana.token}`)).toEqual({ user: 'ana', roles: ['operator'], groups: ['g'] })
    expect(outcome(`bearer  ${ben.token}`)).toEqual({ user: 'ben', roles: [], groups: [], expiresAt: NOW })
  })

  it('refuses a token from its last moment on as credentials_expired', () => {
    expect(outcome(`Bearer ${ben.token}`, NOW)).toBe('credentials_expired')
    expect(outcome(`Bearer ${ben.token}`, NOW + 1)).toBe('credentials_expired')
  })

  it.each([
    ['no header', undefined],
    ['an empty header', ''],
    ['an empty token', 'Bearer '],
    ['another scheme', `Basic ${ana.token}`],
    ['a token without scheme', ana.token],
    ['an unknown token', `Bearer ${createToken(randomBytes).token}`],
    ['the beginning of a token', `Bearer ${ana.token.slice(0, -1)}`],
    ['a longer token', `Bearer ${ana.token}A`],
    ['a token in another case', `Bearer ${ana.token.toUpperCase()}`],
    ['the hash instead of the token', `Bearer ${ana.sha256}`],
    ['two tokens', `Bearer ${ana.token}, Bearer ${ana.token}`],
    ['a header larger than 8 KiB', `Bearer ${' '.repeat(8192)}${ana.token}`],
  ])('refuses %s as unauthenticated', (_name, authorization) => {
    const result = createAuthenticator(auth, { now: () => NOW - 1 }).authenticate({
      get: () => authorization ?? null,
    })
    expect(result).toMatchObject({ code: 'unauthenticated' })
    expect(JSON.stringify(result)).not.toContain(ana.token)
  })
})

it('mode none knows everybody as local, with the configured roles and no others', () => {
  const none: AuthConfig = { mode: 'none', rights: {}, local: { roles: [], groups: [] } }
  expect(outcome(undefined, NOW, none)).toEqual({ user: 'local', roles: [], groups: [] })
  const admin: AuthConfig = { ...none, local: { roles: ['admin'], groups: ['g'] } }
  expect(outcome('Bearer whatever', NOW, admin)).toEqual({ user: 'local', roles: ['admin'], groups: ['g'] })
})

it('a token has 256 random bits behind a prefix, and its hash is that of the whole', () => {
  const { token, sha256 } = createToken(bytes => Buffer.alloc(bytes, 0xff))
  expect(token).toBe(`shj_${Buffer.alloc(32, 0xff).toString('base64url')}`)
  // printf %s 'shj_…' | sha256sum
  expect(sha256).toBe('8a0075c23c9fd202473686c160fbb9469d9f760c4c085763123392680053315b')
  expect(createToken(randomBytes).token).not.toBe(createToken(randomBytes).token)
})

it('rights are those of all roles together, and of no role that is not named', () => {
  const rights: AuthConfig['rights'] = {
    admin: ['policy:write', 'policy:read'],
    auditor: ['audit:read', 'policy:read'],
  }
  const of = (...roles: string[]) => rightsOf(rights, { user: 'admin', roles, groups: ['admin'] })
  expect(of('auditor', 'admin')).toEqual(['policy:read', 'policy:write', 'audit:read'])
  expect(of('constructor', 'adm')).toEqual([])
})
