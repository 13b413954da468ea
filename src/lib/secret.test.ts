import { inspect } from 'node:util'
import { expect, it } from 'vitest'
import { Secret } from './secret.ts'

it('shows itself to nothing but reveal', () => {
  const secret = new Secret('hunter2')
  const shown = [
    `${secret}`,
    String(secret),
    `x${secret}`,
    JSON.stringify({ secret }),
    inspect({ secret }, { depth: 9, showHidden: true }),
    Object.values(secret).join(),
    JSON.stringify(Object.getOwnPropertyDescriptors(secret)),
  ]
  expect(shown.join('\n')).not.toContain('hunter2')
  expect(JSON.stringify({ secret })).toBe('{"secret":"[secret]"}')
  expect(secret.reveal()).toBe('hunter2')
})
