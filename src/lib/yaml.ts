/**
 * YAML and JSON read for people: every value knows the line it came from. One parser takes both, since JSON
 * is YAML. What JSON cannot say (anchors, tags, keys that are not text) is refused, so that a document means
 * the same in either form.
 */

import type { CST, ErrorCode as YamlCode } from 'yaml'
import { Composer, type Document, isMap, isScalar, isSeq, LineCounter, type ParsedNode, Parser } from 'yaml'
import { DocumentError, type Issue } from './document-error.ts'
import type { ErrorCode } from './error.ts'

export type Path = readonly (string | number)[]

export interface LinedDocument {
  readonly value: unknown
  /** An issue at the value of `path`, or at the nearest thing above it that is in the file. */
  issue(code: ErrorCode, path: Path, message: string): Issue
  /** The same at the key itself: for a key that should not be there. */
  issueAtKey(code: ErrorCode, path: Path, message: string): Issue
}

/**
 * The composer recurses, and near the end of its stack the regular expressions it calls end the process
 * (seen with 100,000 brackets); depth is measured before it on the token tree, which is built without
 * recursion.
 */
const DEPTH_MAX = 64
/** Of what the parser itself complains about; it can find one error a character. */
const SYNTAX_ISSUES_MAX = 20

interface Place {
  readonly key: number
  readonly value: number
}

/** Parses one document. Throws `DocumentError` with `code` where the text is not one. */
export const parseLined = (text: string, file: string, code: ErrorCode): LinedDocument => {
  const lines = new LineCounter()
  const at = (offset: number, path: Path, message: string): Issue => {
    const { line, col } = lines.linePos(offset)
    return { code, path: formatPath(path), line: Math.max(line, 1), column: Math.max(col, 1), message }
  }
  const fail = (issues: readonly Issue[]): never => {
    throw new DocumentError(code, file, issues)
  }

  const tokens = [...new Parser(lines.addNewLine).parse(text)]
  const deep = deeperThan(tokens, DEPTH_MAX)
  if (deep !== undefined) return fail([at(deep, [], `nested deeper than ${DEPTH_MAX} levels`)])

  // Keys are compared in `read`: the composer does it pairwise, which takes 27 s for 60,000 of them.
  const options = { prettyErrors: false, uniqueKeys: false } as const
  const documents = [...new Composer(options).compose(tokens, true, text.length)]
  const document = documents[0] as Document.Parsed<ParsedNode>
  const second = documents[1]
  if (second !== undefined) return fail([at(second.range[0], [], 'a second document; one is expected')])
  const syntax = [...document.errors, ...document.warnings]
  if (syntax.length > 0) {
    return fail(syntax.slice(0, SYNTAX_ISSUES_MAX).map(error => at(error.pos[0], [], SYNTAX[error.code])))
  }

  const places = new Map<string, Place>()
  const issues: Issue[] = []
  const read = (node: ParsedNode | null, path: Path, key: number): unknown => {
    const value = node?.range[0] ?? key
    places.set(formatPath(path), { key, value })
    if (node === null) return null
    if (node.anchor !== undefined) issues.push(at(value, path, 'anchors and aliases are not supported'))
    if (isScalar(node)) return node.value
    if (isSeq(node)) return node.items.map((item, index) => read(item, [...path, index], item.range[0]))
    if (isMap(node)) return readMap(node, path)
    issues.push(at(value, path, 'anchors and aliases are not supported'))
    return null
  }
  const readMap = (node: Extract<ParsedNode, { items: unknown }>, path: Path): Record<string, unknown> => {
    const result: Record<string, unknown> = {}
    for (const pair of node.items) {
      if (!('key' in pair)) continue
      const offset = pair.key.range[0]
      const name = isScalar(pair.key) ? keyText(pair.key.value) : undefined
      if (name === undefined) {
        issues.push(at(offset, path, 'a key that is not text'))
        continue
      }
      const here = [...path, name]
      if (name === '__proto__') issues.push(at(offset, here, 'unknown key'))
      else if (Object.hasOwn(result, name)) issues.push(at(offset, here, 'the same key twice'))
      else result[name] = read(pair.value, here, offset)
    }
    return result
  }
  const value = read(document.contents, [], 0)
  if (issues.length > 0) return fail(issues)

  const place = (path: Path, which: keyof Place): number => {
    for (let length = path.length; length > 0; length -= 1) {
      const found = places.get(formatPath(path.slice(0, length)))
      // Above the path itself only the key says anything: "required" belongs where the map is named.
      if (found !== undefined) return length === path.length ? found[which] : found.key
    }
    return places.get('')?.value ?? 0
  }
  const issueAt = (which: keyof Place) => (issueCode: ErrorCode, path: Path, message: string) => ({
    ...at(place(path, which), path, message),
    code: issueCode,
  })
  return { value, issue: issueAt('value'), issueAtKey: issueAt('key') }
}

/** `a.b[0]["odd key"]`. */
export const formatPath = (path: Path): string =>
  path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`
      if (!/^[\w-]{1,64}$/.test(part)) return `[${JSON.stringify(part.slice(0, 64))}]`
      return index === 0 ? part : `.${part}`
    })
    .join('')

const keyText = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined

/** Offset of the first collection below `max` levels, if there is one. */
const deeperThan = (tokens: readonly CST.Token[], max: number): number | undefined => {
  const stack = tokens.map(token => ({ token, depth: 0 }))
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const { token, depth } = next
    if (depth > max) return token.offset
    if (token.type === 'document') {
      if (token.value !== undefined) stack.push({ token: token.value, depth })
    } else if ('items' in token) {
      for (const { key, value } of token.items) {
        if (key) stack.push({ token: key, depth: depth + 1 })
        if (value) stack.push({ token: value, depth: depth + 1 })
      }
    }
  }
  return undefined
}

/** The parser's own messages quote the text; these don't, since a secret may stand there. */
const SYNTAX: Readonly<Record<YamlCode, string>> = {
  ALIAS_PROPS: 'anchors and aliases are not supported',
  BAD_ALIAS: 'anchors and aliases are not supported',
  BAD_COLLECTION_TYPE: 'tags are not supported',
  BAD_DIRECTIVE: 'directives are not supported',
  BAD_DQ_ESCAPE: 'an unknown escape in a quoted text',
  BAD_INDENT: 'the indentation does not fit, or a bracket is not closed',
  BAD_PROP_ORDER: 'an anchor or a tag in a wrong place',
  BAD_SCALAR_START: 'a character that cannot begin a plain text: put it in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'nested mappings are not allowed on one line',
  BLOCK_IN_FLOW: 'a block inside brackets',
  DUPLICATE_KEY: 'the same key twice',
  IMPOSSIBLE: 'cannot be parsed',
  KEY_OVER_1024_CHARS: 'a key of more than 1,024 characters',
  MISSING_CHAR: 'something is missing: a quote, a comma, a colon or a bracket',
  MULTILINE_IMPLICIT_KEY: 'a key over several lines, or a colon is missing',
  MULTIPLE_ANCHORS: 'anchors and aliases are not supported',
  MULTIPLE_DOCS: 'a second document; one is expected',
  MULTIPLE_TAGS: 'tags are not supported',
  NON_STRING_KEY: 'a key that is not text',
  RESOURCE_EXHAUSTION: 'nested too deeply',
  TAB_AS_INDENT: 'tabs cannot indent',
  TAG_RESOLVE_FAILED: 'unknown tag',
  UNEXPECTED_TOKEN: 'unexpected here',
}
