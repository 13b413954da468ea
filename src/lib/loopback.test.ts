import { expect, it } from 'vitest'
import { isLoopback } from './loopback.ts'

it.each(['localhost', 'LOCALHOST', '127.0.0.1', '127.1.2.3', '::1', '[::1]'])('%s is this machine', host => {
  expect(isLoopback(host)).toBe(true)
})

it.each([
  '0.0.0.0',
  '::',
  '128.0.0.1',
  '127.0.0.1.example',
  'localhost.example',
  '127.0.0.256',
  '127.1',
  '10.0.0.1',
  '',
])('%j is not', host => {
  expect(isLoopback(host)).toBe(false)
})
