/** Texts that grow, and the receipts for what of them was cut or withheld. */
import type { Cut, Item, Withheld } from './state.ts'

/** Texts in a state never grow beyond this many UTF-16 units; the item then carries a receipt. */
export const TEXT_UNITS_MAX = 1024 * 1024

/** What a frame brings of one text, with its receipt where the frame holds only the beginning of it. */
export interface Leaf {
  readonly text: string
  readonly cut?: Cut | undefined
}

/** A text as an item holds it. */
interface Known {
  readonly text: string
  readonly cut: Cut | undefined
}

/**
 * Text that follows a cut is counted and not appended: it would stand in the wrong place. Where a text
 * reaches its limit depends on the sum alone, never on how it was split into frames.
 */
export function appendText(known: Known, leaf: Leaf, at: string): Known {
  const added = leaf.cut?.chars ?? leaf.text.length
  const { cut } = known
  if (cut !== undefined)
    return { text: known.text, cut: { at, chars: cut.chars + added, rest: leaf.cut?.rest ?? cut.rest } }
  const chars = known.text.length + added
  const whole = known.text + leaf.text
  if (whole.length <= TEXT_UNITS_MAX)
    return { text: whole, cut: leaf.cut && { at, chars, rest: leaf.cut.rest } }
  const text = whole.slice(0, TEXT_UNITS_MAX).replace(/[\ud800-\udbff]$/, '')
  return { text, cut: { at, chars, rest: leaf.cut?.rest ?? '' } }
}

/** A finished text replaces what is known; one that was cut for its size never shortens it. */
export function settleText(known: Known, leaf: Leaf, at: string): Known {
  const cut = leaf.cut && { at, chars: leaf.cut.chars, rest: leaf.cut.rest }
  const longer = cut !== undefined && known.text.length > leaf.text.length
  return { text: longer && known.text.startsWith(leaf.text) ? known.text : leaf.text, cut }
}

export const cutAt = (item: { cut?: Cut[] }, at: string): Cut | undefined => item.cut?.find(c => c.at === at)

/** The item with its receipts at these places replaced; a list without receipts is left out. */
export function withReceipts<I extends Item>(
  item: I,
  withheld: readonly Withheld[],
  cut: readonly Cut[],
  cleared: readonly string[] = [],
): I {
  const { withheld: _, cut: __, ...rest } = item
  const allWithheld = merged(item.withheld, withheld, [])
  const allCut = merged(item.cut, cut, cleared)
  return {
    ...rest,
    ...(allWithheld.length > 0 && { withheld: allWithheld }),
    ...(allCut.length > 0 && { cut: allCut }),
  } as I
}

function merged<T extends { at: string }>(
  old: readonly T[] | undefined,
  added: readonly T[],
  cleared: readonly string[],
): T[] {
  const gone = new Set([...cleared, ...added.map(r => r.at)])
  return [...(old ?? []).filter(r => !gone.has(r.at)), ...added]
}
