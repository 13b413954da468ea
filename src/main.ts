#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { demo } from './cli/demo.ts'
import { journalCommands } from './cli/journal.ts'
import { runCli } from './cli/run.ts'
import { serve } from './cli/serve.ts'
import { environment } from './config/environment.ts'

/** The first signal asks for an orderly end, the second ends at once. */
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

process.exitCode = await runCli(
  process.argv.slice(2),
  { stdout: process.stdout, stderr: process.stderr, env: environment(), signal: untilAsked() },
  { version, serve, demo, journal: journalCommands },
)
