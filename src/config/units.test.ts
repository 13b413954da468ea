import { expect, it } from 'vitest'
import { formatBytes, formatDuration, parseBytes, parseDuration } from './units.ts'

it('reads sizes and durations, and writes them as read', () => {
  for (const [text, bytes] of [
    ['64MiB', 67_108_864],
    ['1KiB', 1024],
    ['3B', 3],
    ['2TiB', 2 ** 41],
  ] as const) {
    expect(parseBytes(text)).toBe(bytes)
    expect(formatBytes(bytes)).toBe(text)
  }
  for (const [text, ms] of [
    ['7d', 604_800_000],
    ['90s', 90_000],
    ['250ms', 250],
    ['36h', 129_600_000],
  ] as const) {
    expect(parseDuration(text)).toBe(ms)
    expect(formatDuration(ms)).toBe(text)
  }
  expect(parseBytes('1 MiB')).toBe(2 ** 20)
})

it('takes no other spelling', () => {
  for (const text of [
    '',
    '64',
    'MiB',
    '1MB',
    '1mib',
    '-1MiB',
    '1.5MiB',
    '1e3B',
    '1MiBx',
    '99999999999999TiB',
    '1toString',
  ]) {
    expect(parseBytes(text), text).toBeUndefined()
  }
  for (const text of ['7', 'd', '7D', '1w', '1h30m', '-1s', '0x1s'])
    expect(parseDuration(text), text).toBeUndefined()
})
