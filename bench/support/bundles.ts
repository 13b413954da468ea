import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'vite'

export const ROOT = process.cwd()
export const CACHE = join(ROOT, '.cache', 'bench')
export const BUNDLES = join(CACHE, 'bundles')

const PROCESSES = ['shoji', 'runtime', 'viewers', 'ingest-floor', 'fan-out-peers', 'fill'] as const

/** Bundles what runs as processes of their own, so that none of it is measured through a loader. */
export const buildProcesses = async (): Promise<void> => {
  mkdirSync(BUNDLES, { recursive: true })
  await build({
    root: ROOT,
    configFile: false,
    logLevel: 'error',
    ssr: { target: 'node', noExternal: ['@shoji/web-contract'] },
    build: {
      ssr: true,
      outDir: BUNDLES,
      emptyOutDir: true,
      target: 'node20',
      minify: false,
      sourcemap: true,
      rolldownOptions: {
        input: {
          ...Object.fromEntries(
            PROCESSES.map(name => [name, join(ROOT, 'bench', 'processes', `${name}.ts`)]),
          ),
          'bench-publisher': join(ROOT, 'src', 'embedded-runtime', 'bench-publisher.ts'),
          'writer-thread': join(ROOT, 'src', 'journal', 'sqlite', 'writer-thread.ts'),
        },
        // The journal looks for its thread beside the file it stands in, so no chunk may lie deeper.
        output: { entryFileNames: '[name].js', chunkFileNames: 'chunk-[name]-[hash].js' },
      },
    },
  })
}
