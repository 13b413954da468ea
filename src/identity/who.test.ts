import { describe, expect, it } from 'vitest'
import { type CallerRules, cookieCounts, hostAllowed, originAllowed } from './who.ts'

const rules: CallerRules = {
  publicOrigin: 'https://shoji.example',
  hosts: ['shoji.internal', 'lan.example:7420'],
  corsOrigins: ['https://ui.example'],
  loopbackBind: false,
  authMode: 'tokens',
  cookie: { name: 'shoji_7420' },
}
const local: CallerRules = { ...rules, publicOrigin: undefined, hosts: [], loopbackBind: true }

type Headers_ = Readonly<Record<string, string>>
const request = (method: string, headers: Headers_) => ({ method, headers: new Headers(headers) })

describe('the Host of a request', () => {
  const allowed = (host: string | null, given = rules) =>
    hostAllowed({ method: 'GET', headers: { get: name => (name === 'host' ? host : null) } }, given)

  it.each([
    'shoji.example',
    'SHOJI.example',
    'shoji.example:443',
    'shoji.internal',
    'shoji.internal:9',
    'lan.example:7420',
  ])('%s is ours', host => expect(allowed(host)).toBe(true))

  it.each([
    null,
    '',
    'evil.example',
    'shoji.example:444',
    'shoji.example:80',
    'shoji.example.evil.example',
    'xshoji.example',
    'lan.example',
    'lan.example:7421',
    'localhost',
    '127.0.0.1:7420',
    'shoji.example@evil.example',
    'shoji.example, evil.example',
    'shoji.example/',
    'shoji.example:99999',
  ])('%j is not', host => expect(allowed(host)).toBe(false))

  it.each(['localhost:7420', '127.0.0.1', '[::1]:1'])('%s is ours on a loopback bind', host =>
    expect(allowed(host, local)).toBe(true),
  )

  it.each(['rebound.example', '10.0.0.1', 'localhost.example', '[::2]', '[::1'])(
    '%s is not, even there',
    host => expect(allowed(host, local)).toBe(false),
  )
})

describe('the origin of a request', () => {
  const allowed = (method: string, headers: Headers_, given = rules) =>
    originAllowed(request(method, { host: 'shoji.example', ...headers }), given)
  const cookie = { cookie: 'a=b; shoji_7420=x' }
  const own = { origin: 'https://shoji.example' }
  const listed = { origin: 'https://ui.example' }
  const foreign = { origin: 'https://evil.example' }

  it.each(['POST', 'PUT', 'PATCH', 'DELETE', 'post', 'WEIRD'])('%s with the cookie needs our own', method => {
    expect(allowed(method, { ...cookie, ...own })).toBe(true)
    expect(allowed(method, cookie)).toBe(false)
    expect(allowed(method, { ...cookie, ...foreign })).toBe(false)
    expect(allowed(method, { ...cookie, ...listed })).toBe(false)
    expect(allowed(method, { ...cookie, origin: 'null' })).toBe(false)
  })

  it('an unsafe method in mode none needs our own', () => {
    const none: CallerRules = { ...local, authMode: 'none' }
    const post = (headers: Headers_) =>
      originAllowed(request('POST', { host: 'localhost:7420', ...headers }), none)
    expect(post({ origin: 'http://localhost:7420' })).toBe(true)
    expect(post({})).toBe(false)
    expect(post({ origin: 'http://localhost:3000' })).toBe(false)
    expect(post({ origin: 'https://localhost:7420' })).toBe(false)
    expect(post(listed)).toBe(false)
  })

  it('an unsafe method with a token of its own may say nothing, or a listed origin, never a foreign one', () => {
    expect(allowed('POST', {})).toBe(true)
    expect(allowed('POST', own)).toBe(true)
    expect(allowed('POST', listed)).toBe(true)
    expect(allowed('POST', foreign)).toBe(false)
    expect(allowed('POST', { origin: 'null' })).toBe(false)
  })

  it.each(['GET', 'HEAD', 'OPTIONS'])('%s may come from us, from a listed origin, or say nothing', method => {
    expect(allowed(method, cookie)).toBe(true)
    expect(allowed(method, { ...cookie, ...own })).toBe(true)
    expect(allowed(method, listed)).toBe(true)
    expect(allowed(method, foreign)).toBe(false)
    expect(allowed(method, { origin: 'null' })).toBe(false)
    expect(allowed(method, { origin: 'https://ui.example.evil.example' })).toBe(false)
  })

  it('is also told by Sec-Fetch-Site, which a page cannot forge', () => {
    const site = (value: string, headers: Headers_ = {}) =>
      allowed('GET', { 'sec-fetch-site': value, ...headers })
    expect(site('same-origin')).toBe(true)
    expect(site('none')).toBe(true)
    expect(site('same-site')).toBe(false)
    expect(site('cross-site')).toBe(false)
    expect(site('cross-site', listed)).toBe(true)
    expect(site('cross-site', own)).toBe(false)
    expect(allowed('POST', { 'sec-fetch-site': 'cross-site' })).toBe(false)
  })

  it('is ours under any host that is ours, by the scheme it is reached with', () => {
    const from = (host: string, origin: string, given = rules) =>
      originAllowed(request('POST', { host, origin, ...cookie }), given)
    expect(from('shoji.internal:9', 'https://shoji.internal:9')).toBe(true)
    expect(from('shoji.internal:443', 'https://shoji.internal')).toBe(true)
    expect(from('shoji.internal', 'http://shoji.internal')).toBe(false)
    expect(from('127.0.0.1:7420', 'http://127.0.0.1:7420', local)).toBe(true)
    expect(from('[::1]:7420', 'http://[::1]:7420', local)).toBe(true)
    expect(from('127.0.0.1:7420', 'http://localhost:7420', local)).toBe(false)
  })
})

it('the cookie never speaks for a page of another origin, listed or not', () => {
  const counts = (headers: Headers_) =>
    cookieCounts(request('GET', { host: 'shoji.example', ...headers }), rules)
  expect(counts({})).toBe(true)
  expect(counts({ origin: 'https://shoji.example' })).toBe(true)
  expect(counts({ origin: 'https://ui.example' })).toBe(false)
  expect(counts({ origin: 'null' })).toBe(false)
})
