import type { Reporter, TestModule } from 'vitest/node'

/**
 * Says `N passed, N failed, N skipped` as the last thing of a run, plain, for machines. A file that cannot be
 * loaded and an error outside of any test count as a failure each.
 */
export const closingLine = (): Reporter => ({
  onTestRunEnd: (modules, errors) => {
    const line = countOf(modules, errors.length)
    // Whatever else reports at the end has done so by then; what is written on exit is written at once.
    process.once('exit', () => process.stdout.write(line))
  },
})

const countOf = (modules: readonly TestModule[], errors: number): string => {
  const counts = { passed: 0, failed: errors, skipped: 0 }
  for (const module of modules) {
    if (module.errors().length > 0) counts.failed += 1
    for (const test of module.children.allTests()) {
      const { state } = test.result()
      counts[state === 'pending' ? 'failed' : state] += 1
    }
  }
  const skipped = counts.skipped === 0 ? '' : `, ${counts.skipped} skipped`
  return `${counts.passed} passed, ${counts.failed} failed${skipped}\n`
}
