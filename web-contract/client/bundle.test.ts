import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'vite'
import { expect, it } from 'vitest'

const BYTES_MAX = 8 * 1024

it('is under 8 KiB gzipped in a browser bundle, reducer included, with no zod in it', async () => {
  const output = await build({
    configFile: false,
    logLevel: 'silent',
    build: {
      write: false,
      minify: true,
      target: 'es2023',
      rolldownOptions: {
        input: fileURLToPath(new URL('./index.ts', import.meta.url)),
        preserveEntrySignatures: 'strict',
      },
    },
  })
  const outputs = [output].flat().flatMap(o => ('output' in o ? o.output : []))
  const chunks = outputs.filter(o => o.type === 'chunk')
  const modules = chunks.flatMap(c => Object.keys(c.modules))
  expect(modules.filter(m => m.includes('zod'))).toEqual([])
  expect(modules.some(m => m.endsWith('/reduce-worker.ts'))).toBe(true)
  const code = chunks.map(c => c.code).join('')
  expect(code).toContain('createShojiClient')
  expect(code).not.toMatch(/randomUUID|navigator\.locks|innerHTML/)
  expect(gzipSync(code, { level: 9 }).length).toBeLessThan(BYTES_MAX)
})
