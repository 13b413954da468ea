import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

/** The demo page as static files with relative paths, so that it works wherever it is served from. */
export default defineConfig({
  root: fileURLToPath(new URL('./src/console/demo', import.meta.url)),
  base: './',
  build: {
    outDir: fileURLToPath(new URL('./dist/console', import.meta.url)),
    emptyOutDir: true,
    target: 'es2023',
    // An inlined asset would need a looser content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
})
