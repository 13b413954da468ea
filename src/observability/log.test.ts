import { expect, it } from 'vitest'
import { ShojiError } from '../lib/error.ts'
import { Secret } from '../lib/secret.ts'
import { createLogger } from './log.ts'

const collect = (hidden: string[] = [], level: 'info' | 'silent' = 'info') => {
  const lines: string[] = []
  const log = createLogger({
    level,
    hidden: hidden.map(value => new Secret(value)),
    destination: { write: line => lines.push(line) },
  })
  return { log, lines, last: () => JSON.parse(lines.at(-1) ?? '{}') as Record<string, unknown> }
}

it('writes one JSON line with level, time, fields and message', () => {
  const { log, lines, last } = collect()
  log.info({ runtime: 'rt', n: 1 }, 'connected')
  log.debug('unseen')
  expect(lines).toHaveLength(1)
  expect(last()).toEqual({
    level: 'info',
    time: expect.stringMatching(/^\d{4}-.*Z$/),
    runtime: 'rt',
    n: 1,
    msg: 'connected',
  })
})

it('hides what stands under a name that speaks of credentials, at any depth', () => {
  const { log, lines, last } = collect()
  log.info({
    headers: { Authorization: 'Bearer hunter2', cookie: 'a=hunter2', 'set-cookie': ['hunter2'], accept: 'x' },
    list: [{ apiKey: 'hunter2', 'X-API-Key': 'hunter2', password: 'hunter2', runtime_token: 'hunter2' }],
    token: new Secret('hunter2'),
    other: new Secret('hunter2'),
  })
  expect(lines.join()).not.toContain('hunter2')
  expect(last()).toMatchObject({ headers: { Authorization: '[secret]', accept: 'x' }, other: '[secret]' })
})

it('hides registered values wherever they stand, escaped or encoded, the longer one first', () => {
  const values = ['s3cret', 's3cret-and-more', 'with "quotes"\n', 'a b/c?d=e']
  const { log, lines } = collect(values)
  const cause = new Error('connect to a b/c?d=e')
  log.error(
    {
      err: new Error('failed: s3cret-and-more', { cause }),
      url: `http://x/${encodeURIComponent('a b/c?d=e')}`,
    },
    'with "quotes"\n',
  )
  log.child({ worker: 's3cret' }).info('s3cret')
  for (const value of [...values, 'and-more', 'quotes', encodeURIComponent('a b/c?d=e')]) {
    expect(lines.join()).not.toContain(value)
  }
  for (const line of lines) expect(() => JSON.parse(line)).not.toThrow()
})

it('leaves short values and everything else alone', () => {
  const { log, last } = collect(['12345'])
  log.info({ port: '12345' }, 'listening')
  expect(last()).toMatchObject({ port: '12345', msg: 'listening' })
})

it('tells an error by code, facts and causes', () => {
  const { log, last } = collect()
  const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
  log.warn({
    err: new ShojiError('upstream_unreachable', 'no answer', { cause, facts: { runtime: 'rt', token: 'x' } }),
  })
  expect(last()).toMatchObject({
    err: {
      type: 'ShojiError',
      code: 'upstream_unreachable',
      message: 'no answer',
      facts: { runtime: 'rt', token: '[secret]' },
      cause: { code: 'ECONNREFUSED', message: 'refused' },
    },
  })
})

it('bears what has no end', () => {
  const { log, lines } = collect()
  const loop: Record<string, unknown> = {}
  loop.self = loop
  log.info({ loop })
  const error: Error & { cause?: unknown } = new Error('round')
  error.cause = error
  log.info({ err: error })
  expect(lines).toHaveLength(2)
})
