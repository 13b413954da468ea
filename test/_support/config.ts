/** Configurations written to a real file of a directory that lives for one test. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'
import type { Config } from '../../src/config/config.ts'
import { loadConfig } from '../../src/config/load.ts'
import { DocumentError } from '../../src/lib/document-error.ts'

export const MINIMAL_CONFIG = `runtimes:
  - { id: rt, url: "http://127.0.0.1:7800" }
auth: { mode: none }
`

type Env = Readonly<Record<string, string>>

export const useConfigFiles = () => {
  let directory = ''
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shoji-config-'))
  })
  afterEach(() => rm(directory, { recursive: true }))

  const path = (name: string): string => join(directory, name)
  const write = async (name: string, text: string): Promise<string> => {
    await writeFile(path(name), text)
    return path(name)
  }
  const load = async (text: string, env: Env = {}): Promise<Config> =>
    loadConfig({ file: await write('shoji.yaml', text), env })
  const failure = async (text: string, env: Env = {}): Promise<DocumentError> => {
    try {
      await load(text, env)
    } catch (error) {
      if (error instanceof DocumentError) return error
      throw error
    }
    throw new Error('the configuration was accepted')
  }
  /** `code line:column path: message` of everything wrong. */
  const wrong = async (text: string, env: Env = {}): Promise<string[]> =>
    (await failure(text, env)).issues.map(
      ({ code, line, column, path: at, message }) => `${code} ${line}:${column} ${at}: ${message}`,
    )
  return { path, write, load, failure, wrong }
}
