import type { Item } from '@shoji/web-contract/client'
import { element } from './dom.ts'

/** What a viewer would call it. */
const CALLED: Readonly<Record<string, string>> = {
  user_input: 'what the user said',
  assistant_text: 'text',
  tool_call: 'which tool it was',
  tool_args: 'arguments',
  tool_output: 'output',
}

/** One bar for each class that the viewer may not see of this item, in the place where it would stand. */
export function withheldBars(item: Item): HTMLElement[] {
  const byClass = new Map<string, { places: string[]; shortened: boolean }>()
  for (const { class: name, level, at } of item.withheld ?? []) {
    const known = byClass.get(name) ?? { places: [], shortened: true }
    known.places.push(`${at || '/'} (${level})`)
    byClass.set(name, { ...known, shortened: known.shortened && level === 'truncate' })
  }
  return [...byClass].map(([name, { places, shortened }]) => {
    const what = `${CALLED[name] ?? name.replaceAll('_', ' ')} ${shortened ? 'shortened' : 'withheld'}`
    return element(
      'span',
      { class: 'withheld', title: `by the policy of this viewer: ${places.join(', ')}` },
      what,
    )
  })
}

/** Whose an item is and what was cut of it for its size alone, as chips. */
export function receiptChips(item: Item): HTMLElement[] {
  const chips: HTMLElement[] = []
  if (item.internal !== undefined)
    chips.push(
      element('span', { class: 'chip', 'data-tone': 'quiet', title: item.internal }, 'internal worker'),
    )
  for (const { at, chars } of item.cut ?? [])
    chips.push(
      element(
        'span',
        { class: 'chip', 'data-tone': 'quiet', title: at },
        `cut: ${chars.toLocaleString()} characters`,
      ),
    )
  return chips
}
