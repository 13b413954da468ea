import { type ErrorCode, ShojiError } from './error.ts'

/** One thing wrong with a file that an operator wrote, at the place where it is to be mended. */
export interface Issue {
  readonly code: ErrorCode
  /** Key path as one would write it: `runtimes[0].url`; empty for the document as a whole. */
  readonly path: string
  /** Both from 1. */
  readonly line: number
  readonly column: number
  /** Never quotes a value: a misplaced secret must not reach a log by way of an error. */
  readonly message: string
}

/** How many issues one error carries; the rest is noise of the same cause. */
const ISSUES_MAX = 100

/** A file that cannot be used, with everything wrong in it, in order of place. `code` is that of all issues, or `fallback`. */
export class DocumentError extends ShojiError {
  readonly file: string
  readonly issues: readonly Issue[]

  constructor(fallback: ErrorCode, file: string, found: readonly Issue[], options: { cause?: unknown } = {}) {
    const issues = [...found].sort((a, b) => a.line - b.line || a.column - b.column).slice(0, ISSUES_MAX)
    const first = issues[0]
    const code =
      first !== undefined && issues.every(issue => issue.code === first.code) ? first.code : fallback
    const lines = issues.map(issue => formatIssue(file, issue))
    super(code, lines.join('\n'), { ...options, facts: { file, issues } })
    this.name = 'DocumentError'
    this.file = file
    this.issues = issues
  }
}

/** `file:line:column path: message`, which editors and terminals open at the place. */
export const formatIssue = (file: string, issue: Omit<Issue, 'code'>): string =>
  `${file}:${issue.line}:${issue.column} ${issue.path === '' ? 'document' : issue.path}: ${issue.message}`
