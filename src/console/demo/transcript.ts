import type { Item, WorkerState } from '@shoji/web-contract/client'
import { type Card, createCard } from './card.ts'
import { element } from './dom.ts'

/** Nearer to its end than this the list follows what is new. */
const FOLLOW_PX = 80

/** A list of items, keyed by id: cards stay where they are, and only those that changed are touched. */
export function createTranscript() {
  const list = element('div', { class: 'items' })
  const empty = element('p', { class: 'empty' }, 'Nothing to show yet.')
  const root = element(
    'div',
    { class: 'transcript', tabindex: '0', role: 'log', 'aria-label': 'Transcript' },
    empty,
    list,
  )
  let cards = new Map<string, Card>()
  let items: readonly Item[] = []
  let open: WorkerState['open'] | undefined

  function show(next: readonly Item[], nextOpen: WorkerState['open'] | undefined): void {
    if (next === items && nextOpen === open) return
    const follow = root.scrollHeight - root.scrollTop - root.clientHeight < FOLLOW_PX
    const growing = new Set([...(nextOpen?.blocks ?? []), ...(nextOpen?.calls ?? [])].map(o => o.item))
    const kept = new Map<string, Card>()
    let place = list.firstElementChild
    for (const item of next) {
      const known = cards.get(item.id)
      const card = known?.root.dataset.kind === item.kind ? known : createCard(item)
      card.update(item, growing.has(item.id))
      if (place === card.root) place = place.nextElementSibling
      else list.insertBefore(card.root, place)
      kept.set(item.id, card)
    }
    while (place !== null) {
      const after = place.nextElementSibling
      place.remove()
      place = after
    }
    cards = kept
    items = next
    open = nextOpen
    empty.hidden = next.length > 0
    if (follow) root.scrollTop = root.scrollHeight
  }

  return {
    root,
    show,
    /** Keeps what is in view where it is while something is put before it. */
    prepending(change: () => void): void {
      const fromEnd = root.scrollHeight - root.scrollTop
      change()
      root.scrollTop = root.scrollHeight - fromEnd
    },
  }
}
