#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { demo } from './cli/demo.ts'
import { journalCommands } from './cli/journal.ts'
import { type CliIo, EXIT, runCli } from './cli/run.ts'
import { serve } from './cli/serve.ts'
import { environment } from './config/environment.ts'

/** Ctrl-C reaches every process of a terminal, and npm passes its own on: one wish can come twice. */
const SAME_WISH_MS = 500

/**
 * The first signal asks for an orderly end, the second ends at once. Commands that never look at the signal
 * are ended by it as any program is.
 */
function untilAsked(): AbortSignal {
  const asked = new AbortController()
  let askedAtMs = Number.POSITIVE_INFINITY
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      if (performance.now() - askedAtMs > SAME_WISH_MS) process.exit(130)
      if (asked.signal.aborted) return
      askedAtMs = performance.now()
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
