/** `docs/` is kept true: the page names every key with its default, and no other; the examples are valid. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { loadPolicyFile } from '../projection/policy/file.ts'
import { loadConfig } from './load.ts'
import { configSchema } from './schema.ts'

const docs = join(import.meta.dirname, '../../docs')

interface Json {
  readonly type?: string
  readonly properties?: Readonly<Record<string, Json>>
  readonly items?: Json
  readonly additionalProperties?: Json | boolean
  readonly default?: unknown
}

/** Every key that holds no keys of its own, with its default. */
const leaves = (schema: Json, path = ''): { key: string; default: unknown }[] => {
  if (schema.properties !== undefined) {
    return Object.entries(schema.properties).flatMap(([key, value]) =>
      leaves(value, path === '' ? key : `${path}.${key}`),
    )
  }
  if (schema.items?.properties !== undefined) return leaves(schema.items, `${path}[]`)
  if (typeof schema.additionalProperties === 'object') return [{ key: `${path}.*`, default: schema.default }]
  return [{ key: path, default: schema.default }]
}

const schema = z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as Json

const rows = async (): Promise<Map<string, string>> => {
  const page = await readFile(join(docs, 'configuration.md'), 'utf8')
  const cells = page
    .split('\n')
    .filter(line => line.startsWith('| `'))
    .map(line => line.split('|').map(cell => cell.trim()))
  return new Map(
    cells.map(([, key = '', , value = '']) => [key.replaceAll('`', ''), value.replaceAll('`', '')]),
  )
}

it('the page of the configuration names every key, and no other', async () => {
  const keys = leaves(schema).map(({ key }) => key)
  expect(keys.length).toBeGreaterThan(30)
  expect([...(await rows()).keys()].sort()).toEqual(keys.sort())
})

it('the page of the configuration tells every default', async () => {
  const told = await rows()
  for (const { key, default: value } of leaves(schema)) {
    const expected = typeof value === 'object' ? JSON.stringify(value) : String(value)
    if (value === undefined) expect(['required', 'none', 'never'], key).toContain(told.get(key))
    else expect(told.get(key), key).toBe(expected)
  }
})

it('the example configuration and its policy are valid', async () => {
  const config = await loadConfig({ file: join(docs, 'examples/shoji.yaml'), env: { RT_TOKEN: 'x' } })
  expect(config.policy.file).toBe(join(docs, 'examples/policy.yaml'))
  const { policy, findings } = await loadPolicyFile(config.policy.file ?? '')
  expect(findings).toEqual([])
  const resource = { source: 'runtime', runtime: 'rt-prod', worker: 'w', profile: null } as const
  const seenBy = (role: string) => policy.view({ user: 'x', roles: [role], groups: [] }, resource)
  expect(seenBy('operator')).toMatchObject({ observe: true, levels: { thinking: 'show', system: 'drop' } })
  expect(seenBy('guest')).toMatchObject({
    observe: true,
    levels: { thinking: 'mask', usage: 'drop' },
    commands: [],
  })
  expect(seenBy('nobody').observe).toBe(false)
})
