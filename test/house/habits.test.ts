/** Habits of the house that a linter does not know. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { isTest, root, sourceFiles } from '../_support/source-files.ts'

const code = sourceFiles('src', 'web-contract').filter(({ path }) => !isTest(path))
const tests = sourceFiles('src', 'web-contract').filter(({ path }) => isTest(path))

const LINES_MAX = 400
const LINES_TALKED_ABOUT = 300

/** A name, or several with hyphens between them, then extensions. A leading `_` marks what only tests use. */
const KEBAB_CASE = /^_?[a-z0-9]+(-[a-z0-9]+)*(\.[a-z]+)+$/

/** Tests of more than the one file they stand beside, and what they hold true instead. */
const SUBJECTS: Readonly<Record<string, string>> = {
  'src/config/docs.test.ts': 'docs/configuration.md',
  'src/embedded-runtime/replay.test.ts': 'src/embedded-runtime/replay-verbatim.ts',
  'web-contract/client/bundle.test.ts': 'web-contract/client/index.ts',
  'web-contract/client/connection.test.ts': 'web-contract/client/client.ts',
  'web-contract/fixtures/fixtures.test.ts': 'web-contract/fixtures/frames',
  'web-contract/protocol.test.ts': 'web-contract/PROTOCOL.md',
}

const readsEnvironment = (text: string): boolean => /\bprocess\s*(\.\s*env\b|\[\s*['"]env)/.test(text)
const usesConsole = (text: string): boolean => /\bconsole\s*\.\s*\w+\s*\(/.test(text)

it('only the configuration reads the environment', () => {
  const reading = code.filter(({ text }) => readsEnvironment(text)).map(({ path }) => path)
  expect(reading).toEqual(['src/config/environment.ts'])
})

it('nothing writes to the console', () => {
  expect(usesConsole("console.log('x')")).toBe(true)
  expect(code.filter(({ text }) => usesConsole(text)).map(({ path }) => path)).toEqual([])
})

it('files are named in kebab-case', () => {
  for (const wrong of ['worldView.ts', 'World.ts', 'world_view.ts', 'world--view.ts'])
    expect(wrong).not.toMatch(KEBAB_CASE)
  const folders = ['src', 'web-contract', 'test', 'bench', 'scripts'].filter(name =>
    existsSync(join(root, name)),
  )
  const named = sourceFiles(...folders).map(({ path }) => path)
  expect(named.filter(path => !KEBAB_CASE.test(basename(path)))).toEqual([])
})

it(`no file has more than ${LINES_MAX} lines`, () => {
  const long = code
    .map(({ path, text }) => ({ path, lines: text.split('\n').length - 1 }))
    .filter(({ lines }) => lines > LINES_TALKED_ABOUT)
    .sort((a, b) => b.lines - a.lines)
  const listed = long.map(({ path, lines }) => `${lines} ${path}`).join('\n')
  expect(
    long.filter(({ lines }) => lines > LINES_MAX),
    `over ${LINES_TALKED_ABOUT} lines:\n${listed}`,
  ).toEqual([])
})

it('every unit test stands beside what it tests', () => {
  const lost = tests.filter(({ path }) => {
    const beside = SUBJECTS[path] ?? path.replace(/\.test\.ts$/, '.ts')
    return !existsSync(join(root, beside))
  })
  expect(lost.map(({ path }) => path)).toEqual([])
  expect(Object.keys(SUBJECTS).filter(path => !existsSync(join(root, path)))).toEqual([])
})

it('links from page to page lead somewhere', () => {
  const pages = [
    ...readdirSync(root),
    ...readdirSync(join(root, 'docs')).map(name => join('docs', name)),
    'web-contract/PROTOCOL.md',
  ].filter(name => name.endsWith('.md'))
  expect(pages).toContain('README.md')
  const links = pages.flatMap(page =>
    [...readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)].map(
      ([, to = '']) => ({
        page,
        to,
      }),
    ),
  )
  expect(links.length).toBeGreaterThan(10)
  expect(links.filter(({ page, to }) => !existsSync(join(root, dirname(page), to)))).toEqual([])
})
