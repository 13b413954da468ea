import { expect, it } from 'vitest'
import { sessionCookie } from './cookie.ts'

const ID = 'A'.repeat(43)
const read = (cookie: string | null) => sessionCookie({ port: 7420 }).read({ get: () => cookie })

it('is out of reach of scripts and of other sites, and carries the port in its name', () => {
  const cookie = sessionCookie({ port: 7420 })
  expect(cookie.name).toBe('shoji_7420')
  expect(cookie.set(ID, Date.UTC(2027, 0, 1))).toBe(
    `shoji_7420=${ID}; Path=/; HttpOnly; SameSite=Strict; Expires=Fri, 01 Jan 2027 00:00:00 GMT`,
  )
  expect(cookie.clear()).toBe('shoji_7420=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0')
})

it('is bound to the host and to TLS under an https origin alone', () => {
  const cookie = sessionCookie({ publicOrigin: 'https://shoji.example', port: 7420 })
  expect(cookie.name).toBe('__Host-shoji')
  expect(cookie.set(ID, 0)).toContain('; Path=/; HttpOnly; SameSite=Strict; Secure; ')
  expect(cookie.clear()).toContain('; Secure')
  expect(sessionCookie({ publicOrigin: 'http://shoji.example', port: 1 }).name).toBe('shoji_1')
})

it('is found among others', () => {
  expect(read(`a=b; shoji_7420=${ID}; c=d`)).toBe(ID)
  expect(read(`shoji_7420=${ID}`)).toBe(ID)
})

it.each([
  ['none', null],
  ['none of its name', `shoji_742=${ID}; xshoji_7420=${ID}`],
  ['another length', `shoji_7420=${ID}A`],
  ['other characters', `shoji_7420=${'%'.repeat(43)}`],
  ['two of one name', `shoji_7420=${ID}; shoji_7420=${ID.replace('A', 'B')}`],
  ['a header larger than 8 KiB', `${'a=b; '.repeat(2_000)}shoji_7420=${ID}`],
])('is not read from %s', (_name, header) => {
  expect(read(header)).toBeUndefined()
})
