import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { ShojiConfig } from '../processes/shoji.ts'
import { CACHE } from './bundles.ts'
import { Child } from './child.ts'

/** What every bench is given. */
export interface BenchContext {
  /** Where `--prof` puts the profiles of the serving process; absent without it. */
  readonly profileDir?: string
  readonly say: (line: string) => void
}

export interface Bench {
  readonly name: string
  run(context: BenchContext): Promise<import('./table.ts').BenchResult>
}

/** A directory on the disk that is measured (never a memory file system), removed at the end. */
export const scratch = (name: string): { path: string; remove: () => void } => {
  const path = mkdtempSync(join(CACHE, `${name}-`))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

export const startShoji = async (
  context: BenchContext,
  config: ShojiConfig,
  cores?: string,
): Promise<{ child: Child; url: string }> => {
  const { child, ready } = await Child.start<{ url: string }>('shoji', config, {
    ...(cores !== undefined && { cores }),
    ...(context.profileDir !== undefined && {
      execArgv: ['--cpu-prof', `--cpu-prof-dir=${context.profileDir}`],
    }),
  })
  return { child, url: ready.url }
}

const SERVED_MS = 30_000

/** Resolves when an address answers 200. */
export const untilServed = async (url: string): Promise<void> => {
  for (const deadline = Date.now() + SERVED_MS; ; ) {
    const abort = new AbortController()
    const response = await fetch(url, { signal: abort.signal })
    abort.abort()
    if (response.status === 200) return
    if (Date.now() > deadline) throw new Error(`${url} answers ${response.status}`)
    await delay(50)
  }
}
