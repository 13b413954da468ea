/**
 * The plan of the house. Data runs down this list, an import points up it: a room may import from the rooms
 * and packages it names, and from itself. A file that stands in no room is an offence too, so that a new
 * folder begins with a line here.
 */
import { expect, it } from 'vitest'
import { importsOf, isTest, type SourceFile, sourceFiles } from '../_support/source-files.ts'

interface Room {
  /** Rooms or single files, `types` of them, or packages; `node:` stands for Node's own modules. */
  readonly imports: readonly string[]
  /** The same, for `import type` alone: the room knows the shape and never the code. */
  readonly types?: readonly string[]
}

const CONTRACT = '@shoji/web-contract'

/** A file belongs to the room with the longest name that it lies under. */
const HOUSE: Readonly<Record<string, Room>> = {
  // What everybody may speak of. Browser-safe: no Node, no package but zod.
  'web-contract': { imports: ['zod'] },
  'web-contract/client': { imports: ['web-contract'] },
  'web-contract/client/_support': { imports: ['web-contract', 'web-contract/client', 'node:'] },

  // Beside the road.
  'src/lib': { imports: ['node:', 'zod', 'yaml', 'lossless-json'], types: [CONTRACT] },
  'src/config': { imports: ['src/lib', CONTRACT, 'node:', 'zod', 'yaml'] },

  // 1. Sources bring envelopes in. They know what an envelope is, and nothing of how it is kept.
  'src/sources': {
    imports: ['src/lib'],
    types: [CONTRACT, 'src/journal/entry.ts', 'src/journal/journal.ts'],
  },
  'src/sources/runtime': {
    imports: ['src/sources', 'src/lib', CONTRACT, 'node:', 'ws', 'zod'],
    types: ['src/journal/entry.ts', 'src/journal/journal.ts'],
  },

  // 2. The journal makes them durable and ordered. Nothing above `sqlite` may assume SQLite.
  'src/journal': { imports: ['src/lib', CONTRACT, 'node:'] },
  'src/journal/sqlite': {
    imports: ['src/journal/entry.ts', 'src/lib', 'node:', 'better-sqlite3', 'drizzle-orm'],
    types: ['src/journal/journal.ts'],
  },

  // 3. Projection decides what each viewer sees: pure, over the journal's vocabulary.
  'src/projection': { imports: ['src/journal', 'src/lib', CONTRACT, 'node:'] },
  'src/projection/policy': { imports: ['src/projection', 'src/lib', CONTRACT, 'node:', 'zod'] },

  // 4. Delivery brings bytes to browsers.
  'src/delivery': {
    imports: ['src/projection', 'src/journal', 'src/lib', CONTRACT, 'node:'],
    types: ['src/sources/source.ts', 'src/sources/upstreams.ts'],
  },

  // The road back, and who is asking.
  'src/identity': {
    imports: ['src/lib', 'src/config/rights.ts', 'node:'],
    types: ['src/config', 'src/projection/view.ts'],
  },
  'src/commands': {
    imports: ['src/journal', 'src/projection', 'src/lib', CONTRACT, 'node:'],
    types: ['src/identity', 'src/sources/source.ts'],
  },
  'src/http': {
    imports: [
      'src/delivery',
      'src/projection',
      'src/journal',
      'src/identity',
      'src/commands',
      'src/lib',
      CONTRACT,
    ].concat(['node:', 'hono', '@hono/node-server', 'zod']),
    types: ['src/sources/source.ts'],
  },
  // A browser's program: it reaches the server by HTTP alone.
  'src/console': { imports: [CONTRACT, `${CONTRACT}/client`] },

  // Watches every stage by the events each one names.
  'src/observability': {
    imports: ['src/lib', 'node:', 'pino', 'prom-client'],
    types: ['src/config', 'src/sources', 'src/journal', 'src/projection', 'src/delivery', 'src/http'],
  },

  // A stranger that speaks the upstream protocol: it must not learn it from the code it is there to test.
  'src/embedded-runtime': { imports: ['src/lib', 'node:', 'ws', 'zod'] },

  // The composition root knows every stage; only commands and the entry know it.
  'src/service.ts': {
    imports: ['src/config', 'src/sources', 'src/sources/runtime', 'src/journal', 'src/journal/sqlite']
      .concat([
        'src/projection',
        'src/projection/policy',
        'src/delivery',
        'src/identity',
        'src/commands',
        'src/http',
      ])
      .concat(['src/observability', 'src/lib', CONTRACT, 'node:', 'hono', '@hono/node-server']),
  },
  'src/cli': {
    imports: [
      'src/service.ts',
      'src/config',
      'src/embedded-runtime',
      'src/http',
      'src/identity',
      'src/journal',
    ]
      .concat([
        'src/journal/sqlite',
        'src/projection',
        'src/projection/policy',
        'src/observability',
        'src/lib',
      ])
      .concat([CONTRACT, 'node:', 'hono', 'yaml']),
  },
  'src/main.ts': { imports: ['src/cli', 'src/config', 'node:'] },
}

const roomOf = (path: string): string | undefined =>
  Object.keys(HOUSE)
    .filter(room => path === room || path.startsWith(`${room}/`))
    .sort((a, b) => b.length - a.length)[0]

const isNamed = (names: readonly string[], target: string, relative: boolean): boolean =>
  names.some(name => {
    if (relative) return target === name || roomOf(target) === name
    return name === 'node:' ? target.startsWith(name) : target === name || isSubpath(name, target)
  })

/** `drizzle-orm/sqlite-core` is of `drizzle-orm`; the contract's client is a room of its own. */
const isSubpath = (name: string, target: string): boolean =>
  name !== CONTRACT && target.startsWith(`${name}/`)

/** One line an edge that the plan does not have. */
const offences = (files: readonly SourceFile[]): string[] =>
  files.flatMap(file => {
    const name = roomOf(file.path)
    const room = name === undefined ? undefined : HOUSE[name]
    if (room === undefined) return [`${file.path} stands in no room`]
    return importsOf(file).flatMap(({ target, relative, typesOnly }) => {
      const named = isNamed([...room.imports, ...(typesOnly ? (room.types ?? []) : [])], target, relative)
      if (named || (relative && roomOf(target) === name)) return []
      return [`${file.path} -> ${target}${typesOnly ? ' (types)' : ''}`]
    })
  })

it('every import points up the house', () => {
  const files = sourceFiles('src', 'web-contract').filter(({ path }) => !isTest(path))
  expect(files.length).toBeGreaterThan(100)
  expect(offences(files)).toEqual([])
})

const edge = (path: string, text: string): string[] => offences([{ path, text }])

it('prints the offending edge, in whatever form it is written', () => {
  expect(edge('src/lib/clock.ts', "import { toProblem } from '../http/errors.ts'")).toEqual([
    'src/lib/clock.ts -> src/http/errors.ts',
  ])
  expect(edge('src/journal/a.ts', "export * from '../projection/project.ts'")).toHaveLength(1)
  expect(edge('src/journal/a.ts', "const late = await import('../delivery/fold.ts')")).toHaveLength(1)
  expect(edge('src/journal/a.ts', "type Late = import('../delivery/fold.ts').Folding")).toHaveLength(1)
  expect(edge('src/http/app.ts', "import '../service.ts'")).toEqual(['src/http/app.ts -> src/service.ts'])
  expect(edge('src/http/app.ts', "import { startShoji } from '../../test/_support/shoji.ts'")).toHaveLength(1)
  expect(edge('src/news/a.ts', '')).toEqual(['src/news/a.ts stands in no room'])
})

it('keeps the contract browser-safe, and reached by its name alone', () => {
  expect(edge('web-contract/reduce.ts', "import type { Entry } from '../src/journal/entry.ts'")).toHaveLength(
    1,
  )
  expect(edge('web-contract/reduce.ts', "import { createHash } from 'node:crypto'")).toHaveLength(1)
  expect(edge('web-contract/reduce.ts', "import { client } from './client/index.ts'")).toHaveLength(1)
  expect(edge('src/delivery/a.ts', "import { reduce } from '../../web-contract/reduce.ts'")).toHaveLength(1)
  expect(edge('src/delivery/a.ts', "import { client } from '@shoji/web-contract/client'")).toHaveLength(1)
})

it('tells types from code, and a seam from what implements it', () => {
  expect(edge('src/sources/runtime/a.ts', "import type { Envelope } from '../../journal/entry.ts'")).toEqual(
    [],
  )
  expect(edge('src/sources/runtime/a.ts', "import { asSeq } from '../../journal/entry.ts'")).toHaveLength(1)
  expect(edge('src/delivery/a.ts', "import { asSeq } from '../journal/entry.ts'")).toEqual([])
  expect(edge('src/delivery/a.ts', "import { readAll } from '../journal/sqlite/reader.ts'")).toHaveLength(1)
  expect(edge('src/delivery/a.ts', "import Database from 'better-sqlite3'")).toHaveLength(1)
})
