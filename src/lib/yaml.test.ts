import { describe, expect, it } from 'vitest'
import { DocumentError } from './document-error.ts'
import { formatPath, parseLined } from './yaml.ts'

const parse = (text: string) => parseLined(text, 'f.yaml', 'config_invalid')

/** `line:column path: message` of everything wrong. */
const wrong = (text: string): string[] => {
  try {
    parse(text)
  } catch (error) {
    if (!(error instanceof DocumentError)) throw error
    expect(error.code).toBe('config_invalid')
    return error.issues.map(issue => `${issue.line}:${issue.column} ${issue.path}: ${issue.message}`)
  }
  return []
}

describe('a document that knows its lines', () => {
  it('reads YAML and JSON alike, tabs and byte order mark included', () => {
    const value = { a: 1, b: [{ c: 'x' }], d: null }
    expect(parse('a: 1\nb:\n  - c: x\nd:\n').value).toEqual(value)
    expect(parse(JSON.stringify(value, null, '\t')).value).toEqual(value)
    expect(parse(`\ufeff${JSON.stringify(value)}`).value).toEqual(value)
  })

  it('keeps dates and words as text', () => {
    expect(parse('a: 2027-01-01\nb: yes\nc: on').value).toEqual({ a: '2027-01-01', b: 'yes', c: 'on' })
  })

  it('places an issue at its value, at its key, or at what is above it in the file', () => {
    const document = parse('a:\n  b: 1\n  c:\n    - d: 2\n')
    const at = (issue: { line: number; column: number }) => [issue.line, issue.column]
    expect(at(document.issue('config_invalid', ['a', 'b'], ''))).toEqual([2, 6])
    expect(at(document.issueAtKey('config_invalid', ['a', 'b'], ''))).toEqual([2, 3])
    expect(at(document.issue('config_invalid', ['a', 'c', 0, 'd'], ''))).toEqual([4, 10])
    expect(at(document.issue('config_invalid', ['a', 'c', 0, 'missing'], ''))).toEqual([4, 7])
    expect(at(document.issue('config_invalid', ['a', 'missing', 'x'], ''))).toEqual([1, 1])
    expect(at(document.issue('config_invalid', ['missing'], ''))).toEqual([1, 1])
  })

  it.each([
    ['a key given twice', 'a: 1\nb: 2\na: 3', '3:1 a: the same key twice'],
    ['a key that is a mapping', '? {x: 1}\n: 2', '1:3 : a key that is not text'],
    ['__proto__', 'a: 1\n__proto__: {x: 1}', '2:1 __proto__: unknown key'],
    ['an alias', 'a: &x 1\nb: *x', '1:7 a: anchors and aliases are not supported'],
    ['an anchor on a mapping', 'a: &x {b: 1}', '1:7 a: anchors and aliases are not supported'],
    ['an unknown tag', 'a: !x 1', '1:4 : unknown tag'],
    ['a second document', 'a: 1\n---\nb: 2', '2:1 : a second document; one is expected'],
    ['an open quote', 'a: 1\nb: "x', '2:6 : something is missing: a quote, a comma, a colon or a bracket'],
  ])('refuses %s', (_name, text, message) => {
    expect(wrong(text)).toContain(message)
  })

  it('refuses a torn document at the place where it ends', () => {
    expect(wrong('{"a": 1, "b": [1,')[0]).toMatch(/^1:1[78] /)
  })

  it('quotes nothing of a text that does not parse', () => {
    for (const text of [
      'a: [hunter2\nb: 1',
      'a: @hunter2',
      'a: "hunter2',
      'a: "\\hunter2"',
      'hunter2\na: 1',
      '*hunter2 : ]',
    ]) {
      expect(wrong(text).length, text).toBeGreaterThan(0)
      expect(wrong(text).join()).not.toContain('hunter2')
    }
  })

  it.each(['[', '- ', '? ', '{a: '])(
    'refuses %j a hundred thousand times over, without harm to the process',
    part => {
      const [first = ''] = wrong(part.repeat(100_000))
      expect(first).toContain('nested deeper than 64 levels')
    },
  )

  it('finds one key given twice among 60,000 without comparing them all', () => {
    const keys = Array.from({ length: 60_000 }, (_, index) => `k${index}: 1`)
    const started = performance.now()
    expect(wrong([...keys, 'k7: 1'].join('\n'))).toEqual(['60001:1 k7: the same key twice'])
    expect(performance.now() - started).toBeLessThan(10_000)
  })

  it('bounds what it reports', () => {
    expect(wrong('a: ]\n'.repeat(5_000)).length).toBeLessThanOrEqual(20)
  })

  it('writes paths as one would', () => {
    expect(formatPath(['a', 'b-c', 0, 'odd key', '"'])).toBe('a.b-c[0]["odd key"]["\\""]')
  })
})
