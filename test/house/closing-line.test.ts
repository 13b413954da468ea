/** The line by which a machine judges a run, held against real runs of the runner. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'

const root = join(import.meta.dirname, '../..')
let directory = ''

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shoji-closing-'))
  const reporter = JSON.stringify(join(root, 'test/_support/closing-line.ts'))
  await writeFile(
    join(directory, 'vitest.config.ts'),
    `import { closingLine } from ${reporter}
     export default { test: { globals: true, reporters: ['default', closingLine()] } }`,
  )
})
afterEach(() => rm(directory, { recursive: true }))

const run = async (files: Record<string, string>): Promise<{ code: number; last: string }> => {
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
  return new Promise(resolve => {
    const vitest = join(root, 'node_modules/vitest/vitest.mjs')
    const child = execFile(
      process.execPath,
      [vitest, 'run', '--root', directory, '--no-file-parallelism'],
      (_, stdout) => resolve({ code: child.exitCode ?? -1, last: stdout.split('\n').slice(-2).join('\n') }),
    )
  })
}

it('counts what passed, failed and was skipped, and ends with the line', async () => {
  const { code, last } = await run({
    'a.test.ts': `it('a', () => {}); it('b', () => { throw new Error('no') }); it.skip('c', () => {})`,
    'b.test.ts': `it('d', () => {}); it.todo('e')`,
  })
  expect([code, last]).toEqual([1, '2 passed, 1 failed, 2 skipped\n'])
})

it('counts a file that cannot be loaded, and an error that no test saw, as failures', async () => {
  const { code, last } = await run({
    'a.test.ts': `throw new Error('at once')`,
    'b.test.ts': `it('b', async () => { Promise.reject(new Error('lost')); await new Promise(setImmediate) })`,
  })
  expect([code, last]).toEqual([1, '1 passed, 2 failed\n'])
})
