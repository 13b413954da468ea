/** The sources as the house tests see them: paths from the root, with `/`, and what each imports. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { parseAst } from 'vite'

export const root = join(import.meta.dirname, '../..')

export interface SourceFile {
  /** From the root of the repository. */
  readonly path: string
  readonly text: string
}

export const sourceFiles = (...folders: readonly string[]): SourceFile[] =>
  folders.flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map(name => posix.join(folder, name.replaceAll('\\', '/')))
      .filter(path => /\.(ts|tsx|mts|mjs|js)$/.test(path) && !path.includes('node_modules/'))
      .sort()
      .map(path => ({ path, text: readFileSync(join(root, path), 'utf8') })),
  )

export const isTest = (path: string): boolean => path.endsWith('.test.ts')

export interface Import {
  /** A path from the root for what is imported relatively, else the name as written. */
  readonly target: string
  readonly relative: boolean
  readonly typesOnly: boolean
}

interface Node {
  readonly type: string
  readonly source?: Node | null
  readonly value?: unknown
  readonly importKind?: string
  readonly exportKind?: string
  readonly specifiers?: readonly Node[]
}

/** Everything a module imports: declarations, re-exports, `import()` and `import('…')` in types. */
export const importsOf = ({ path, text }: SourceFile): Import[] => {
  const found: Import[] = []
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const part of value) visit(part)
    else if (isNode(value)) {
      const name = value.source?.value
      if (typeof name === 'string') found.push(toImport(path, name, isTypesOnly(value)))
      for (const part of Object.values(value)) visit(part)
    }
  }
  visit(parseAst(text, { lang: path.endsWith('x') ? 'tsx' : 'ts' }, path).body)
  return found
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'

const isTypesOnly = ({ type, importKind, exportKind, specifiers }: Node): boolean =>
  type === 'TSImportType' ||
  importKind === 'type' ||
  exportKind === 'type' ||
  (specifiers !== undefined && specifiers.length > 0 && specifiers.every(one => one.importKind === 'type'))

const toImport = (from: string, name: string, typesOnly: boolean): Import => {
  const relative = name.startsWith('.')
  return { target: relative ? posix.join(posix.dirname(from), name) : name, relative, typesOnly }
}
