import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import type { AuthConfig } from '../config/config.ts'
import { ShojiError } from '../lib/error.ts'
import { createAuthenticator } from './authenticator.ts'
import { sessionCookie } from './cookie.ts'
import { createIdentify } from './identify.ts'
import { createMemorySessions } from './sessions.ts'
import { createToken } from './token.ts'

const NOW = 1_800_000_000_000
const { token, sha256 } = createToken(randomBytes)
const tokens: AuthConfig = {
  mode: 'tokens',
  rights: {},
  tokens: [{ id: 'ana', sha256, roles: [], groups: [] }],
}
const none: AuthConfig = { mode: 'none', rights: {}, local: { roles: [], groups: [] } }

const setUp = async (auth: AuthConfig = tokens) => {
  let time = NOW
  const now = () => time
  const sessions = createMemorySessions(randomBytes)
  const cookie = sessionCookie({ port: 1 })
  const rules = {
    hosts: [],
    corsOrigins: ['https://ui.example'],
    loopbackBind: true,
    authMode: auth.mode,
    cookie,
  }
  const identify = createIdentify({
    authenticator: createAuthenticator(auth, { now }),
    sessions,
    cookie,
    rules,
    now,
  })
  const session = await sessions.create({ user: 'ben', roles: ['r'], groups: [], expiresAt: NOW + 10 }, NOW)
  const who = async (headers: Record<string, string>) => {
    const result = await identify({
      method: 'GET',
      headers: new Headers({ host: 'localhost:1', ...headers }),
    })
    return result instanceof ShojiError ? result.code : [result.by, result.subject.user]
  }
  return {
    who,
    signedIn: { cookie: `${cookie.name}=${session.id}` },
    wait: (ms: number) => {
      time += ms
    },
  }
}

it('a request is known by its token, or by its session', async () => {
  const { who, signedIn } = await setUp()
  expect(await who({ authorization: `Bearer ${token}` })).toEqual(['token', 'ana'])
  expect(await who(signedIn)).toEqual(['session', 'ben'])
  expect(await who({ ...signedIn, authorization: `Bearer ${token}` })).toEqual(['token', 'ana'])
  expect(await who({})).toBe('unauthenticated')
})

it('a wrong token is not made good by a session', async () => {
  const { who, signedIn } = await setUp()
  expect(await who({ ...signedIn, authorization: 'Bearer wrong' })).toBe('unauthenticated')
})

it('a session ends with its credentials, and is then unknown', async () => {
  const { who, signedIn, wait } = await setUp()
  wait(10)
  expect(await who(signedIn)).toBe('credentials_expired')
  expect(await who(signedIn)).toBe('unauthenticated')
})

it('a session is worth nothing to a page of another origin', async () => {
  const { who, signedIn } = await setUp()
  expect(await who({ ...signedIn, origin: 'http://localhost:1' })).toEqual(['session', 'ben'])
  expect(await who({ ...signedIn, origin: 'https://ui.example' })).toBe('unauthenticated')
})

it('in mode none everybody is local, whatever they show', async () => {
  const { who, signedIn } = await setUp(none)
  expect(await who({})).toEqual(['none', 'local'])
  expect(await who({ ...signedIn, authorization: 'Bearer wrong' })).toEqual(['none', 'local'])
})
