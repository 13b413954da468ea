import { defineConfig } from 'vitest/config'
import { closingLine } from './test/_support/closing-line.ts'

const seconds = 1000

/** One project a kind of test, so that `npm run test:laws` and its like each run one alone. */
const project = (name: string, include: string[], extra: object = {}) => ({
  test: { name, include, testTimeout: 30 * seconds, hookTimeout: 30 * seconds, ...extra },
})

export default defineConfig({
  test: {
    globalSetup: ['./test/_support/build.ts'],
    pool: 'forks',
    reporters: ['default', closingLine()],
    projects: [
      {
        extends: true,
        ...project('unit', ['src/**/*.test.ts', 'web-contract/**/*.test.ts', 'test/house/**/*.test.ts']),
      },
      { extends: true, ...project('laws', ['test/laws/**/*.test.ts'], { testTimeout: 300 * seconds }) },
      { extends: true, ...project('flows', ['test/flows/**/*.test.ts'], { testTimeout: 120 * seconds }) },
      {
        extends: true,
        ...project('hardening', ['test/hardening/**/*.test.ts'], { testTimeout: 120 * seconds }),
      },
      { extends: true, ...project('browser', ['test/browser/**/*.test.ts'], { testTimeout: 120 * seconds }) },
    ],
  },
})
