import { expect, it } from 'vitest'
import { asSeq, asStreamId, type Entry } from '../journal/entry.ts'
import { createLists } from './lists.ts'

/** A snapshot as it is read from a journal: a new object each time. `parsed` counts how often its text is looked at. */
const snapshot = (seq: number, text = 'hello') => {
  const payload = JSON.stringify({
    event: 'snapshot',
    data: {
      status: 'idle',
      entries: [
        { kind: 'assistant_item', item: { kind: 'message', role: 'assistant', content: [{ text }] } },
      ],
    },
  })
  const count = { reads: 0 }
  const entry: Entry = {
    seq: asSeq(seq),
    stream: asStreamId(1),
    incarnation: 1,
    time: 5,
    event: 'snapshot',
    eventId: `e${seq}`,
    payload,
    mark: false,
    get context() {
      count.reads += 1
      return { replaces: true as const }
    },
  }
  return { entry, count }
}

it('expands a list once, however often its entry is read again', () => {
  const lists = createLists()
  const first = lists.of(snapshot(7).entry)
  expect(first.list.map(p => p.data)).toEqual([{ text: 'hello' }, { status: 'idle' }])
  const again = snapshot(7)
  expect(lists.of(again.entry)).toBe(first)
  expect(again.count.reads).toBe(0)
})

it('forgets the list that was not asked for longest, past either limit', () => {
  const units = snapshot(1).entry.payload.length
  const few = createLists({ maxLists: 2, maxUnits: 1_000 * units })
  const [one, two] = [few.of(snapshot(1).entry), few.of(snapshot(2).entry)]
  expect(few.of(snapshot(1).entry)).toBe(one)
  few.of(snapshot(3).entry)
  expect(few.of(snapshot(1).entry)).toBe(one)
  expect(few.of(snapshot(2).entry)).not.toBe(two)
  const small = createLists({ maxLists: 100, maxUnits: 2 * units })
  const kept = small.of(snapshot(1).entry)
  small.of(snapshot(2).entry)
  expect(small.of(snapshot(1).entry)).toBe(kept)
  small.of(snapshot(3).entry)
  small.of(snapshot(4).entry)
  expect(small.of(snapshot(1).entry)).not.toBe(kept)
})

it('keeps the newest list whatever its size, and nothing beside it then', () => {
  const lists = createLists({ maxLists: 8, maxUnits: 500 })
  const small = lists.of(snapshot(1).entry)
  const big = lists.of(snapshot(2, 'x'.repeat(5_000)).entry)
  expect(lists.of(snapshot(2, 'x'.repeat(5_000)).entry)).toBe(big)
  expect(lists.of(snapshot(1).entry)).not.toBe(small)
})
