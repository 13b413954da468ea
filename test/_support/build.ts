/**
 * Builds what tests and benches run as files: the writer's thread, which Node cannot load from its source,
 * and the server's bundle for those that start it as a process. Done once for a state of the sources; safe
 * beside other runs, since every file is made under another name and then renamed.
 */
import { createHash, randomBytes } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const cache = join(root, '.cache')

const filesUnder = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && !entry.name.endsWith('.test.ts'))
    .map(entry => join(entry.parentPath, entry.name))
    .sort()

const hashOf = (paths: readonly string[]): string => {
  const hash = createHash('sha256')
  for (const path of paths)
    hash.update(relative(root, path)).update('\0').update(readFileSync(path)).update('\0')
  return hash.digest('hex')
}

const settings = ['vite.node.config.ts', 'package-lock.json'].map(name => join(root, name))
const sources = (...folders: string[]): string[] => [
  ...settings,
  ...folders.flatMap(folder => filesUnder(join(root, folder))),
]

const stampOf = (name: string): string => join(cache, `${name}.stamp`)
const isBuilt = (name: string, hash: string): boolean =>
  existsSync(stampOf(name)) && readFileSync(stampOf(name), 'utf8') === hash

const stamp = (name: string, hash: string): void => {
  const partial = join(cache, `${name}.${randomBytes(4).toString('hex')}`)
  writeFileSync(partial, hash)
  renameSync(partial, stampOf(name))
}

/** Runs a build into a folder of its own and moves its files to `target`, one by one. */
const buildInto = async (
  target: string,
  mode: 'thread' | 'production',
  config = 'vite.node.config.ts',
): Promise<void> => {
  const outDir = join(cache, `build-${randomBytes(6).toString('hex')}`)
  try {
    await build({
      configFile: join(root, config),
      logLevel: 'error',
      mode,
      build: { outDir },
    })
    // Chunks before the entries that import them.
    const made = filesUnder(outDir).sort((a, b) => b.split('/').length - a.split('/').length)
    for (const file of made) {
      const to = join(target, relative(outDir, file))
      const partial = `${to}.${randomBytes(4).toString('hex')}`
      mkdirSync(dirname(to), { recursive: true })
      cpSync(file, partial)
      renameSync(partial, to)
    }
  } finally {
    rmSync(outDir, { recursive: true, force: true })
  }
}

/** Makes `.cache/writer-thread.js`, which a journal that runs from its source starts. */
export const buildThread = async (): Promise<void> => {
  mkdirSync(cache, { recursive: true })
  const hash = hashOf(sources('src/journal', 'src/lib'))
  if (isBuilt('thread', hash) && existsSync(join(cache, 'writer-thread.js'))) return
  await buildInto(cache, 'thread')
  stamp('thread', hash)
}

/** Makes `dist/` as `npm run build` does, where it is not of the present sources. Returns the main file. */
export const buildServer = async (): Promise<string> => {
  mkdirSync(cache, { recursive: true })
  const main = join(root, 'dist', 'main.js')
  const hash = hashOf(sources('src', 'web-contract'))
  if (isBuilt('server', hash) && existsSync(main)) return main
  await buildInto(join(root, 'dist'), 'production')
  stamp('server', hash)
  return main
}

/** Makes `dist/console/`, the browser's pages, where it is not of the present sources. Returns its folder. */
export const buildConsole = async (): Promise<string> => {
  mkdirSync(cache, { recursive: true })
  const folder = join(root, 'dist', 'console')
  const hash = hashOf([join(root, 'vite.console.config.ts'), ...sources('src/console', 'web-contract')])
  if (isBuilt('console', hash) && existsSync(join(folder, 'index.html'))) return folder
  await buildInto(folder, 'production', 'vite.console.config.ts')
  stamp('console', hash)
  return folder
}

/** A server that does not build fails the tests that ask `buildServer` for it, not those that need none. */
export const setup = async (): Promise<void> => {
  await buildThread()
  if (!existsSync(join(root, 'src', 'main.ts'))) return
  await buildServer().catch(error => process.stderr.write(`the server does not build: ${error}\n`))
}
