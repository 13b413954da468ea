import { DocumentError, type Issue } from '../../lib/document-error.ts'
import { type LinedDocument, type Path, parseLined } from '../../lib/yaml.ts'
import { zodIssues } from '../../lib/zod-issues.ts'
import { ANY, type PolicyDocument } from './document.ts'
import { documentSchema } from './schema.ts'

export interface ParsedPolicy {
  readonly document: PolicyDocument
  /** Valid, and likely not what was meant. */
  readonly findings: readonly Issue[]
}

/** Reads a policy from YAML or JSON text. Throws a `DocumentError` `policy_invalid` with everything wrong in it. */
export const parsePolicy = (text: string, file: string): ParsedPolicy => {
  const lined = parseLined(text, file, 'policy_invalid')
  const parsed = documentSchema.safeParse(lined.value)
  const issues = parsed.success ? [] : zodIssues(lined, parsed.error, 'policy_invalid')
  issues.push(...references(lined))
  if (!parsed.success || issues.length > 0) throw new DocumentError('policy_invalid', file, issues)
  return { document: parsed.data, findings: findings(parsed.data, lined) }
}

/**
 * Names that lead nowhere and ids given twice: a statement that could be skipped in silence is refused. Found in
 * the raw document, so that other mistakes don't hide them.
 */
const references = (lined: LinedDocument): Issue[] => {
  const document = asRecord(lined.value)
  const statements = Array.isArray(document.statements) ? document.statements : []
  const ids = new Map<string, number>()
  return statements.flatMap((raw: unknown, index) => {
    const statement = asRecord(raw)
    const at = (key: string): Path => ['statements', index, key]
    const issues: Issue[] = []
    for (const [key, section] of REFERENCES) {
      const name = statement[key]
      if (typeof name === 'string' && name !== ANY && !Object.hasOwn(asRecord(document[section]), name)) {
        issues.push(lined.issue('policy_invalid', at(key), `no such name in ${section}`))
      }
    }
    if (typeof statement.id === 'string') {
      const before = ids.get(statement.id)
      if (before === undefined) ids.set(statement.id, index)
      else issues.push(lined.issue('policy_invalid', at('id'), `the same as in statements[${before}]`))
    }
    return issues
  })
}

const REFERENCES = [
  ['who', 'subjects'],
  ['on', 'resources'],
] as const

const asRecord = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}

/** A cap on `rt*` that covers nothing shows more than its author believes. */
const findings = (document: PolicyDocument, lined: LinedDocument): Issue[] => {
  const found: Issue[] = []
  const look = (name: string, path: Path): void => {
    if (name === ANY || !name.includes(ANY)) return
    found.push(lined.issue('policy_invalid', path, 'matches only this very name: * is a wildcard only alone'))
  }
  for (const [subject, { any }] of Object.entries(document.subjects)) {
    for (const [index, matcher] of any.entries()) {
      for (const [key, name] of Object.entries(matcher)) look(name, ['subjects', subject, 'any', index, key])
    }
  }
  for (const [resource, matcher] of Object.entries(document.resources)) {
    for (const [key, names] of Object.entries<readonly string[] | undefined>({ ...matcher })) {
      for (const [index, name] of (names ?? []).entries()) look(name, ['resources', resource, key, index])
    }
  }
  return found
}
