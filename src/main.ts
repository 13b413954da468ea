#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { demo } from './cli/demo.ts'
import { journalCommands } from './cli/journal.ts'
import { type CliIo, EXIT, runCli } from './cli/run.ts'
import { serve } from './cli/serve.ts'
import { environment } from './config/environment.ts'

/**
 * The first signal asks for an orderly end, the second ends at once. Commands that never look at the signal
 * are ended by it as any program is.
 */
function untilAsked(): AbortSignal {
  const asked = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      if (asked.signal.aborted) process.exit(130)
      asked.abort()
    })
  return asked.signal
}

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

let asked: AbortSignal | undefined
const io: CliIo = {
  stdout: process.stdout,
  stderr: process.stderr,
  env: environment(),
  get signal() {
    asked ??= untilAsked()
    return asked
  },
}

// Whoever read our output has gone, as `head` does: there is nobody to write on for.
process.stdout.on('error', () => process.exit(EXIT.failed))

process.exitCode = await runCli(process.argv.slice(2), io, {
  version,
  serve,
  demo,
  journal: journalCommands,
})
