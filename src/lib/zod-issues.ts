import type { z } from 'zod'
import type { Issue } from './document-error.ts'
import type { ErrorCode } from './error.ts'
import type { LinedDocument, Path } from './yaml.ts'

/** What a schema found wrong, at the lines where it stands: one issue a key. Messages name no value. */
export const zodIssues = (document: LinedDocument, error: z.core.$ZodError, code: ErrorCode): Issue[] =>
  error.issues.flatMap(issue => {
    const path = issue.path.map(part => (typeof part === 'number' ? part : String(part)))
    switch (issue.code) {
      case 'unrecognized_keys':
        return issue.keys.map(key => document.issueAtKey(code, [...path, key], 'unknown key'))
      case 'invalid_key':
        return [document.issueAtKey(code, path, issue.issues[0]?.message ?? 'unknown key')]
      case 'invalid_type':
        return [document.issue(code, path, typeMessage(issue.expected, valueAt(document.value, path)))]
      default:
        return [document.issue(code, path, issue.message)]
    }
  })

const typeMessage = (expected: string, value: unknown): string => {
  const name = EXPECTED[expected] ?? expected
  if (value === undefined) return `required: ${name}`
  if (value === null) return `empty; expected ${name}`
  return `expected ${name}`
}

const EXPECTED: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a mapping',
  record: 'a mapping',
}

const valueAt = (root: unknown, path: Path): unknown => {
  let value: unknown = root
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = Object.hasOwn(value, part) ? (value as Record<string | number, unknown>)[part] : undefined
  }
  return value
}
