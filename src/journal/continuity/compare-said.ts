import { CLASSES, type Class } from '@shoji/web-contract'
import type { Json } from '../../lib/json.ts'
import type { Placed } from '../expand.ts'
import { foldOne, type Said } from './said.ts'
import type { ListedItem, SaidList } from './said-list.ts'
import { MAC_CHARS, type Mac, thinking } from './utterance.ts'

/** An event that was never told and would have told what the stream lacks. */
interface Missing {
  readonly event: string
  readonly data: Json
  /** Milliseconds since the epoch, where the log knows it. */
  readonly time?: number
  /** Of the item it belongs to: its thinking has the same. */
  readonly mac: string
}

export type Comparison =
  | { readonly verdict: 'same' }
  /** The list says the same and, at its end or as system items anywhere, what is `missing`, in its order. */
  | { readonly verdict: 'more'; readonly missing: readonly Missing[] }
  /** `classes`: those in which the two differ, in the order of `CLASSES`. */
  | { readonly verdict: 'differs'; readonly classes: readonly Class[] }

/** Whether a list says what was said. Parts of a message that is still under way are not compared. */
export function compareSaid(ours: Said, theirs: SaidList, mac: Mac): Comparison {
  const spoken = theirs.items.filter(({ item }) => !item.startsWith('s'))
  const system = compareSystem(ours, theirs)
  const walked = walk(ours, spoken, mac)
  const { matched, left } = walked
  if (walked.agrees && left.length === 0 && !system.differs && !tellsTwice(ours, spoken.slice(matched))) {
    const missing = new Set([...spoken.slice(matched), ...system.missing])
    if (missing.size === 0) return { verdict: 'same' }
    const told = theirs.items.filter(item => missing.has(item)).flatMap(untold(ours, mac))
    return { verdict: 'more', missing: told }
  }
  const classes = new Set<Class>(system.differs || system.missing.length > 0 ? ['system'] : [])
  if (!walked.agrees) for (const of of SPOKEN) classes.add(of)
  else for (const of of classesOf(left, spoken.slice(matched))) classes.add(of)
  return { verdict: 'differs', classes: CLASSES.filter(of => classes.has(of)) }
}

/**
 * A doubtful item has been told: where it stands at the end and was taken for absent, what is missing may be just
 * that, or a text of which it is a part.
 */
function tellsTwice({ items }: Said, missing: readonly ListedItem[]): boolean {
  const sure = items.findLastIndex(item => !item.startsWith('?'))
  const doubtful = items.slice(sure + 1)
  if (doubtful.length === 0 || missing.length === 0) return false
  const known = new Set(doubtful.flatMap(readings))
  const text = doubtful.some(item => item.startsWith('?t'))
  return missing.some(({ item }) => known.has(item) || (text && item.startsWith('t')))
}

const SPOKEN: readonly Class[] = ['user_input', 'assistant_text', 'tool_call', 'tool_args', 'tool_output']

interface Walk {
  /** Whether what is folded agrees. */
  readonly agrees: boolean
  /** How many of theirs stand in ours. */
  readonly matched: number
  /** What of ours comes after, without the doubtful. */
  readonly left: readonly string[]
}

function walk({ folded, items }: Said, spoken: readonly ListedItem[], mac: Mac): Walk {
  const before = spoken.slice(0, folded.count)
  const digest = before.reduce((sum, { item }) => foldOne(sum, item, mac), '')
  if (before.length < folded.count || digest !== folded.mac) return { agrees: false, matched: 0, left: [] }
  // Furthest first. A doubtful item may be there or not, which branches where its like stands beside it.
  let reached: readonly number[] = [folded.count]
  for (const [from, item] of items.entries()) {
    const doubtful = item.startsWith('?')
    const further = new Set<number>()
    for (const at of reached) {
      const their = spoken[at]?.item
      if (their !== undefined && matches(item, their)) further.add(at + 1)
      if (doubtful) further.add(at)
    }
    if (further.size === 0)
      return {
        agrees: true,
        matched: reached[0]!,
        left: items.slice(from).filter(one => !one.startsWith('?')),
      }
    reached = [...further].slice(0, BRANCHES_MAX)
  }
  return { agrees: true, matched: reached[0]!, left: [] }
}

/** Beyond that many the nearest are given up: at worst a list is replaced that says the same. */
const BRANCHES_MAX = 64

/** What the log may have for one of our items. */
function readings(ours: string): readonly string[] {
  const item = ours.startsWith('?') ? ours.slice(1) : ours
  const one = 1 + MAC_CHARS
  if (!item.startsWith('t') || item.length <= one) return [item]
  return [item.slice(0, one), `t${item.slice(one)}`]
}

const matches = (ours: string, theirs: string): boolean => readings(ours).includes(theirs)

/** In which classes two tails differ. Where each class has the same and only the order differs, in all of them. */
function classesOf(ours: readonly string[], theirs: readonly ListedItem[]): Class[] {
  const their = theirs.map(({ item }) => item)
  const known = new Set(their)
  const left = partsOf(ours.map(item => readings(item).find(one => known.has(one)) ?? item))
  const right = partsOf(their)
  const differing = SPOKEN.filter(of => left[of]?.join() !== right[of]?.join())
  return differing.length > 0 ? differing : SPOKEN.filter(of => left[of] !== undefined)
}

function partsOf(items: readonly string[]): Partial<Record<Class, string[]>> {
  const parts: Partial<Record<Class, string[]>> = {}
  const add = (of: Class, part: string): void => {
    const list = parts[of] ?? []
    list.push(part)
    parts[of] = list
  }
  for (const item of items) {
    const digest = item.slice(1)
    if (item.startsWith('u')) add('user_input', digest)
    else if (item.startsWith('t')) add('assistant_text', digest)
    else if (item.startsWith('r')) add('tool_output', digest)
    else {
      add('tool_call', digest.slice(0, MAC_CHARS))
      add('tool_args', digest.slice(MAC_CHARS))
    }
  }
  return parts
}

/**
 * System items are a bag: the live stream tells them elsewhere than the log, or not at all (R24, R47). One that
 * we have oftener than the list is no difference.
 */
function compareSystem(ours: Said, theirs: SaidList): { differs: boolean; missing: ListedItem[] } {
  const left = new Map<string, number>()
  for (const item of ours.system) left.set(item, (left.get(item) ?? 0) + 1)
  const take = (item: string | undefined): boolean => {
    const count = item === undefined ? 0 : (left.get(item) ?? 0)
    if (item === undefined || count === 0) return false
    left.set(item, count - 1)
    return true
  }
  const listed = theirs.items.filter(({ item }) => item.startsWith('s'))
  const unmatched = listed.filter(({ item, echo }) => !take(item) && !take(echo))
  const known = new Set(listed.map(({ item }) => item))
  const differs = [...left].some(([item, count]) => count > 0 && item.startsWith('s') && !known.has(item))
  return { differs, missing: ours.systemGone > 0 ? [] : unmatched }
}

/** The events that tell an item. Thinking that was told live already, and then its message not, is left out. */
const untold =
  (ours: Said, mac: Mac) =>
  ({ item, told }: ListedItem): Missing[] => {
    const digest = item.slice(1, 1 + MAC_CHARS)
    return told.flatMap(({ event, data, time }: Placed): Missing[] => {
      const rest = { mac: digest, ...(time !== undefined && { time }) }
      if (event !== 'thinking_done') return [{ event, data, ...rest }]
      if (ours.thinking.includes(thinking(mac, data))) return []
      return [
        { event: 'thinking_start', data: {}, ...rest },
        { event, data, ...rest },
      ]
    })
  }
