import type { Class, Level, Withheld } from '@shoji/web-contract'
import { asText, isRecord, type Json } from '../lib/json.ts'

/**
 * What a value is made of, and of which class each part is. A projection is built from the shape's known
 * parts; what the shape does not name does not exist.
 */
export type Shape =
  | { readonly leaf: Class; readonly masked?: string }
  /** The name of a tool: null is one that is not known, and stands nowhere. */
  | { readonly leaf: Class; readonly name: true }
  /** Names a thing and tells nothing: always there. */
  | { readonly id: true }
  | { readonly fields: Readonly<Record<string, Shape>> }
  | { readonly list: Shape }
  /** Told apart by `kind`; a kind that is not named becomes `{kind: 'unknown'}`. */
  | { readonly kinds: Readonly<Record<string, Readonly<Record<string, Shape>>>> }
  /** A foreign value of which nothing is known but its class. */
  | { readonly foreign: Class }
  /** An object that does not exist unless each of these fields has one of its values. */
  | {
      readonly where: Readonly<Record<string, readonly string[]>>
      readonly fields: Readonly<Record<string, Shape>>
    }

export interface Walk {
  readonly level: (of: Class) => Level
  readonly withheld: Withheld[]
  /** Makes an id that is safe on the wire out of one that is not. */
  readonly safeId: (id: string) => string
  /** A masked name becomes null and not empty: rules for tools must not take it for one. */
  readonly unnamed?: true
}

/** Receipts of one event: beyond this many parts it is plain that much is withheld, and how much is nobody's. */
const WITHHELD_MAX = 64

const tellWithheld = ({ withheld }: Walk, receipt: Withheld): void => {
  if (withheld.length < WITHHELD_MAX) withheld.push(receipt)
}

const OMIT = Symbol('omit')

/** The projected value, or undefined where nothing of it is shown. */
export function walkShape(shape: Shape, value: unknown, at: string, walk: Walk): unknown {
  const result = visit(shape, value, at, walk)
  return result === OMIT ? undefined : result
}

function visit(shape: Shape, value: unknown, at: string, walk: Walk): unknown {
  if (value === undefined) return OMIT
  if ('id' in shape) return typeof value === 'string' ? walk.safeId(value) : scalar(value) ? value : OMIT
  if ('leaf' in shape) return visitLeaf(shape, value, at, walk)
  if ('fields' in shape) {
    if (!isRecord(value) || ('where' in shape && !matches(shape.where, value))) return OMIT
    return visitFields(shape.fields, value, at, walk)
  }
  if ('list' in shape) return Array.isArray(value) ? visitList(shape.list, value, at, walk) : OMIT
  if ('kinds' in shape) return isRecord(value) ? visitKinds(shape.kinds, value, at, walk) : OMIT
  return visitForeign(shape.foreign, value, at, walk)
}

const scalar = (value: unknown): boolean =>
  value === null || ['string', 'number', 'bigint', 'boolean'].includes(typeof value)

function visitLeaf(
  shape: { leaf: Class; masked?: string; name?: true },
  value: unknown,
  at: string,
  walk: Walk,
): unknown {
  const level = walk.level(shape.leaf)
  if (level === 'drop' || !scalar(value)) return OMIT
  const nameless = shape.name === true && value === null
  if (level === 'show' || level === 'truncate') return nameless ? OMIT : value
  tellWithheld(walk, { at, class: shape.leaf, level })
  if (shape.name === true && walk.unnamed) return null
  return nameless ? OMIT : (shape.masked ?? emptyOf(value))
}

function emptyOf(value: unknown): unknown {
  if (typeof value === 'string') return ''
  if (typeof value === 'boolean') return false
  return value === null ? null : 0
}

const matches = (where: Readonly<Record<string, readonly string[]>>, value: Json): boolean =>
  Object.entries(where).every(([name, texts]) => texts.includes(asText(value[name])))

function visitFields(fields: Readonly<Record<string, Shape>>, value: Json, at: string, walk: Walk): Json {
  const built: Json = {}
  for (const name in fields) {
    if (!Object.hasOwn(value, name)) continue
    const part = visit(fields[name]!, value[name], `${at}/${name}`, walk)
    if (part !== OMIT) built[name] = part
  }
  return built
}

function visitList(shape: Shape, value: readonly unknown[], at: string, walk: Walk): unknown[] {
  const built: unknown[] = []
  for (const part of value) {
    const projected = visit(shape, part, `${at}/${built.length}`, walk)
    if (projected !== OMIT) built.push(projected)
  }
  return built
}

function visitKinds(
  kinds: Readonly<Record<string, Readonly<Record<string, Shape>>>>,
  value: Json,
  at: string,
  walk: Walk,
): Json {
  const kind = asText(value.kind)
  const fields = Object.hasOwn(kinds, kind) ? kinds[kind]! : undefined
  if (fields === undefined) return { kind: 'unknown' }
  return { kind, ...visitFields(fields, value, at, walk) }
}

/** Every class that some part of the shape belongs to. */
export function classesOf(shape: Shape): Class[] {
  if ('leaf' in shape) return [shape.leaf]
  if ('foreign' in shape) return [shape.foreign]
  if ('list' in shape) return classesOf(shape.list)
  if ('fields' in shape) return Object.values(shape.fields).flatMap(classesOf)
  if ('kinds' in shape) return Object.values(shape.kinds).flatMap(fields => classesOf({ fields }))
  return []
}

const FOREIGN_DEPTH_MAX = 32

function visitForeign(of: Class, value: unknown, at: string, walk: Walk): unknown {
  const level = walk.level(of)
  if (level === 'drop') return OMIT
  if (level === 'mask') {
    tellWithheld(walk, { at, class: of, level })
    return Array.isArray(value) ? [] : isRecord(value) ? {} : emptyOf(value)
  }
  return copyForeign(value, FOREIGN_DEPTH_MAX)
}

/** Foreign keys go into objects without a prototype: `__proto__` is a key like any other. */
function copyForeign(value: unknown, depth: number): unknown {
  if (scalar(value)) return value
  if (depth === 0) return null
  if (Array.isArray(value)) return value.map(part => copyForeign(part, depth - 1))
  if (!isRecord(value)) return null
  const built: Json = Object.create(null)
  for (const name of Object.keys(value)) built[name] = copyForeign(value[name], depth - 1)
  return built
}
