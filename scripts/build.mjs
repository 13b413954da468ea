// Builds dist/: the server, then the browser's pages. With --where-possible it is the `prepare` step, which
// npm also runs where there is nothing to build with (`npm ci --omit=dev`): then it leaves dist/ as it is.
import { existsSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const configs = ['vite.node.config.ts', 'vite.console.config.ts'].filter(name => existsSync(join(root, name)))
// Each configuration says what its own root is, from here.
process.chdir(root)
const vite = await import('vite').catch(error => {
  if (process.argv.includes('--where-possible') && error.code === 'ERR_MODULE_NOT_FOUND') return null
  throw error
})

if (vite === null || configs.length === 0) {
  process.stdout.write('shoji: nothing to build with, dist/ stays as it is\n')
} else {
  for (const name of configs) {
    process.stdout.write(`shoji: building by ${name}\n`)
    await vite.build({ configFile: join(root, name), logLevel: 'warn' })
  }
}
