/**
 * Finds the text of an object's members without rewriting it. Only for text that `JSON.parse` has taken:
 * nothing here checks the grammar.
 */

const QUOTE = 0x22
const BACKSLASH = 0x5c

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

const skipSpace = (text: string, at: number): number => {
  while (isSpace(text.charCodeAt(at))) at += 1
  return at
}

/** The place after the string that begins at `at`. */
const skipString = (text: string, at: number): number => {
  for (let i = at + 1; ; i += 1) {
    const code = text.charCodeAt(i)
    if (code === BACKSLASH) i += 1
    else if (code === QUOTE || Number.isNaN(code)) return i + 1
  }
}

const skipNested = (text: string, at: number): number => {
  let depth = 0
  for (let i = at; i < text.length; ) {
    const char = text[i]
    if (char === '"') {
      i = skipString(text, i)
      continue
    }
    if (char === '{' || char === '[') depth += 1
    else if (char === '}' || char === ']') depth -= 1
    i += 1
    if (depth === 0) return i
  }
  return text.length
}

const skipScalar = (text: string, at: number): number => {
  let i = at
  while (i < text.length && !',}]'.includes(text[i] ?? '') && !isSpace(text.charCodeAt(i))) i += 1
  return i
}

const skipValue = (text: string, at: number): number => {
  const char = text[at]
  if (char === '"') return skipString(text, at)
  if (char === '{' || char === '[') return skipNested(text, at)
  return skipScalar(text, at)
}

/** The members of the object that `text` is, each value as it is written. A name that comes twice has its last value. */
export const sliceMembers = (text: string): ReadonlyMap<string, string> => {
  const members = new Map<string, string>()
  let at = skipSpace(text, 0)
  if (text[at] !== '{') return members
  at = skipSpace(text, at + 1)
  while (text[at] === '"') {
    const nameEnd = skipString(text, at)
    const name: unknown = JSON.parse(text.slice(at, nameEnd))
    const from = skipSpace(text, skipSpace(text, nameEnd) + 1)
    const to = skipValue(text, from)
    members.set(String(name), text.slice(from, to))
    at = skipSpace(text, to)
    if (text[at] === ',') at = skipSpace(text, at + 1)
  }
  return members
}
