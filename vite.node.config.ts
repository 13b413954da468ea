import { existsSync } from 'node:fs'
import { defineConfig } from 'vite'

const thread = { 'writer-thread': 'src/journal/sqlite/writer-thread.ts' }
const main = existsSync(`${import.meta.dirname}/src/main.ts`) ? { main: 'src/main.ts' } : {}

/** The server: what Node runs. The journal's writer is a file beside the main one; mode `thread` builds it alone. */
export default defineConfig(({ mode }) => ({
  root: import.meta.dirname,
  ssr: { target: 'node', noExternal: ['@shoji/web-contract'] },
  build: {
    ssr: true,
    outDir: 'dist',
    emptyOutDir: true,
    target: 'node20',
    minify: false,
    sourcemap: true,
    rolldownOptions: {
      input: mode === 'thread' ? thread : { ...main, ...thread },
      output: { entryFileNames: '[name].js', chunkFileNames: 'chunks/[name]-[hash].js' },
    },
  },
}))
