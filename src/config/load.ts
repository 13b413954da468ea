import { dirname, resolve } from 'node:path'
import type { z } from 'zod'
import { DocumentError, type Issue } from '../lib/document-error.ts'
import { type ReadText, readFailure, readText } from '../lib/read-text.ts'
import { type LinedDocument, parseLined } from '../lib/yaml.ts'
import { zodIssues } from '../lib/zod-issues.ts'
import { type Config, toConfig } from './config.ts'
import { contradictions } from './contradictions.ts'
import { type Environment, environment } from './environment.ts'
import { resolveReferences } from './references.ts'
import { type ConfigFile, configSchema, SECTIONS } from './schema.ts'

const CONFIG_BYTES_MAX = 1024 * 1024

export interface LoadOptions {
  readonly file: string
  readonly env?: Environment
  readonly readFile?: ReadText
}

/**
 * Reads, resolves and checks a configuration. Rejects with a `DocumentError` that holds everything wrong at
 * once: `config_unreadable`, `config_invalid`, or `secret_unresolved` where that is all that is wrong.
 */
export const loadConfig = async (options: LoadOptions): Promise<Config> => {
  const { env = environment(), readFile = readText } = options
  const file = resolve(options.file)
  const document = parseLined(await read(readFile, file), file, 'config_invalid')
  const resolved = await resolveReferences(document, { directory: dirname(file), env, read: readFile })
  const { parsed, issues } = check({ ...document, value: resolved.value })
  const found = [...resolved.issues, ...issues.filter(issue => !resolved.unresolved.has(issue.path))]
  if (parsed === undefined || found.length > 0) throw new DocumentError('config_invalid', file, found)
  return toConfig(parsed, file, resolved.secrets)
}

const read = async (readFile: ReadText, file: string): Promise<string> => {
  try {
    return await readFile(file, CONFIG_BYTES_MAX)
  } catch (cause) {
    const issue: Issue = {
      code: 'config_unreadable',
      path: '',
      line: 1,
      column: 1,
      message: readFailure(cause),
    }
    throw new DocumentError('config_unreadable', file, [issue], { cause })
  }
}

const check = (document: LinedDocument): { parsed: ConfigFile | undefined; issues: Issue[] } => {
  const whole = configSchema.safeParse(document.value)
  const sections = whole.success ? whole.data : soundSections(document.value)
  const issues = [
    ...(whole.success ? [] : zodIssues(document, whole.error, 'config_invalid')),
    ...contradictions(sections).map(({ path, message }) => document.issue('config_invalid', path, message)),
  ]
  return { parsed: whole.data, issues }
}

/** The sections that parse alone, so that their contradictions are told together with the mistakes elsewhere. */
const soundSections = (value: unknown): Partial<ConfigFile> => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {}
  const given: Readonly<Record<string, unknown>> = { ...value }
  const sound: Record<string, unknown> = {}
  for (const [key, schema] of Object.entries<z.ZodType>(SECTIONS)) {
    const result = schema.safeParse(given[key])
    if (result.success) sound[key] = result.data
  }
  return sound as Partial<ConfigFile>
}
