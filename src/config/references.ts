/**
 * `${env:NAME}` and `${file:path}` in any text of the configuration. What they bring in is a secret wherever
 * it stands. `$${` is a plain `${`. A value that was brought in is not looked at again.
 */
import { resolve } from 'node:path'
import type { Issue } from '../lib/document-error.ts'
import { type ReadText, readFailure } from '../lib/read-text.ts'
import { Secret } from '../lib/secret.ts'
import { formatPath, type LinedDocument, type Path } from '../lib/yaml.ts'
import type { Environment } from './environment.ts'

const SECRET_FILE_BYTES_MAX = 64 * 1024

export interface ReferenceContext {
  /** Relative paths start here. */
  readonly directory: string
  readonly env: Environment
  readonly read: ReadText
}

export interface Resolved {
  readonly value: unknown
  /** Every value that came from outside, by the key it stands under. */
  readonly secrets: readonly { readonly path: string; readonly secret: Secret }[]
  /** Keys whose reference did not resolve: what a schema says of them is noise. */
  readonly unresolved: ReadonlySet<string>
  readonly issues: readonly Issue[]
}

export const resolveReferences = async (
  document: LinedDocument,
  context: ReferenceContext,
): Promise<Resolved> => {
  const secrets: { path: string; secret: Secret }[] = []
  const unresolved = new Set<string>()
  const issues: Issue[] = []

  const text = async (raw: string, path: Path): Promise<string> => {
    let result = ''
    let rest = raw
    for (let at = rest.indexOf('${'); at !== -1; at = rest.indexOf('${')) {
      if (rest[at - 1] === '$') {
        result += `${rest.slice(0, at - 1)}\${`
        rest = rest.slice(at + 2)
        continue
      }
      const end = rest.indexOf('}', at)
      const found =
        end === -1 ? { wrong: 'a ${ that is not closed' } : await lookUp(rest.slice(at + 2, end), context)
      if ('wrong' in found) {
        issues.push(document.issue('secret_unresolved', path, found.wrong))
        unresolved.add(formatPath(path))
        return raw
      }
      secrets.push({ path: formatPath(path), secret: new Secret(found.text) })
      result += rest.slice(0, at) + found.text
      rest = rest.slice(end + 1)
    }
    return result + rest
  }
  const walk = async (value: unknown, path: Path): Promise<unknown> => {
    if (typeof value === 'string') return value.includes('${') ? text(value, path) : value
    if (Array.isArray(value)) {
      const items: unknown[] = []
      for (const [index, item] of value.entries()) items.push(await walk(item, [...path, index]))
      return items
    }
    if (typeof value !== 'object' || value === null) return value
    const result: Record<string, unknown> = {}
    for (const [key, item] of Object.entries(value)) result[key] = await walk(item, [...path, key])
    return result
  }
  return { value: await walk(document.value, []), secrets, unresolved, issues }
}

const lookUp = async (
  reference: string,
  context: ReferenceContext,
): Promise<{ text: string } | { wrong: string }> => {
  const [, scheme, target] = /^(env|file):(.+)$/.exec(reference) ?? []
  if (scheme === undefined || target === undefined)
    return { wrong: 'expected env:NAME or file:path in the braces' }
  if (scheme === 'env') {
    const value = Object.hasOwn(context.env, target) ? context.env[target] : undefined
    if (value === undefined) return { wrong: `the environment has no ${target}` }
    return value === '' ? { wrong: `${target} is empty in the environment` } : { text: value }
  }
  try {
    const content = await context.read(resolve(context.directory, target), SECRET_FILE_BYTES_MAX)
    // Editors and `echo` end a file with a line break that is not part of the secret.
    const value = content.replace(/\r?\n$/, '')
    return value === '' ? { wrong: `the file ${target} is empty` } : { text: value }
  } catch (error) {
    return { wrong: `the file ${target} cannot be read: ${readFailure(error)}` }
  }
}
