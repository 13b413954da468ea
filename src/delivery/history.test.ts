import type { Item } from '@shoji/web-contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { audienceOf, journalAll, openWorld, type Said, viewOf, type World } from '../../test/laws/_world.ts'
import { asSeq, type Key } from '../journal/entry.ts'
import type { Journal } from '../journal/journal.ts'
import { type ItemPage, readGrown, readItem, readItems } from './history.ts'
import { createLists, type Lists } from './lists.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const tell = (event: string, data: object): Said => ({ kind: 'event', event: { event, data } })
const begin = (entries: object[] = [], status = 'running'): Said => ({
  kind: 'begin',
  event: { event: 'snapshot', data: { entries, status } },
})
const sightOf = (record: Parameters<typeof audienceOf>[1], level: 'show' | 'mask' = 'show') =>
  [...audienceOf(world, record, viewOf(level)).streams.values()][0]!

/** Counts what is asked of the journal. */
function counted(): { journal: Journal; pieces: () => number } {
  let pieces = 0
  const journal = new Proxy<Journal>(world.journal, {
    get(target, name) {
      if (name !== 'readItem') return Reflect.get(target, name, target)
      return async (...args: Parameters<Journal['readItem']>) => {
        const page = await target.readItem(...args)
        if (args[4] === 'all') pieces += page.entries.length
        return page
      }
    },
  })
  return { journal, pieces: () => pieces }
}

it('pages through a big snapshot and expands it once', async () => {
  const entries = Array.from({ length: 500 }, (_, i) => ({
    kind: 'assistant_item',
    item: { kind: 'message', role: 'assistant', content: [{ kind: 'text', text: `text ${i}` }] },
  }))
  const { record, entries: journaled } = await journalAll(world, [begin(entries, 'idle')])
  const { seq } = journaled[0]!
  const seen = new Set<unknown>()
  const real = createLists()
  const lists: Lists = {
    of(entry) {
      const list = real.of(entry)
      seen.add(list)
      return list
    },
  }
  const items: Item[] = []
  let before: Key | null = { seq: asSeq(seq + 1), index: 0 }
  let pages = 0
  while (before !== null) {
    const range = { before, through: seq, replacing: seq, maxItems: 50, maxBytes: 1e6 }
    const page: ItemPage = await readItems({ ...world.folding, lists }, sightOf(record), range)
    items.unshift(...page.items)
    before = page.earlier
    pages += 1
  }
  expect(pages).toBe(10)
  expect(items.map(item => 'text' in item && item.text)).toEqual(entries.map((_, i) => `text ${i}`))
  expect(seen.size).toBe(1)
})

it('never looks at a list behind which the page ends', async () => {
  const { record, entries } = await journalAll(world, [
    begin(),
    ...['a', 'b', 'c'].map(text => tell('text_done', { text })),
  ])
  const lists: Lists = {
    of() {
      throw new Error('not asked for')
    },
  }
  const through = entries.at(-1)!.seq
  const range = {
    before: { seq: asSeq(through + 1), index: 0 },
    through,
    replacing: entries[0]!.seq,
    maxItems: 2,
    maxBytes: 1e6,
  }
  const page = await readItems({ ...world.folding, lists }, sightOf(record), range)
  expect(page.items.map(item => 'text' in item && item.text)).toEqual(['b', 'c'])
})

it('reads an unfinished text of more pieces than a page, and nothing of it for a view that is not shown it', async () => {
  const texts = Array.from({ length: 3_000 }, (_, i) => `${i} `)
  const { record, entries } = await journalAll(world, [
    begin(),
    ...texts.map(text => tell('text_delta', { text })),
  ])
  const item = entries[1]!.context.item!
  const { journal, pieces } = counted()
  const reading = { ...world.folding, journal }
  const through = entries.at(-1)!.seq
  expect(await readItem(reading, sightOf(record), item, through, null)).toMatchObject({
    text: texts.join(''),
  })
  expect(pieces()).toBe(texts.length)
  expect(await readItem(reading, sightOf(record, 'mask'), item, through, null)).toBeNull()
  expect(pieces()).toBe(texts.length)
})

it('reads no piece of a text that has ended', async () => {
  const { record, entries } = await journalAll(world, [
    begin(),
    tell('text_delta', { text: 'a' }),
    tell('text_delta', { text: 'b' }),
    tell('text_done', { text: 'ab' }),
  ])
  const { journal, pieces } = counted()
  const item = await readItem(
    { ...world.folding, journal },
    sightOf(record),
    entries[1]!.context.item!,
    entries.at(-1)!.seq,
    null,
  )
  expect([item, pieces()]).toMatchObject([{ text: 'ab' }, 0])
})

it('reads the result of a call whose output is beyond what is read of pieces', async () => {
  const output = (content: string): Said =>
    tell('command', { event: { kind: 'output', command_id: 'k', stream: 'stdout', content } })
  const megabyte = 1024 * 1024
  const { record, entries } = await journalAll(world, [
    begin(),
    tell('tool_call_start', { id: 'c', name: 'bash' }),
    tell('command', { event: { kind: 'started', command_id: 'k', tool_call_id: 'c' } }),
    ...Array.from({ length: 20 }, () => output('x'.repeat(megabyte))),
    tell('tool_result', { id: 'c', summary: 'done', is_error: false }),
  ])
  const at = { key: entries[1]!.context.item!, through: entries.at(-1)!.seq, list: null }
  const item = await readItem(world.folding, sightOf(record), at.key, at.through, null)
  if (item?.kind !== 'tool_call') throw new Error('no call')
  expect(item.result).toMatchObject({ summary: 'done' })
  const whole = await readGrown(world.folding, sightOf(record), { ...at, pointer: '/command/stdout' })
  expect(whole.length / megabyte).toBeGreaterThanOrEqual(15)
  expect(whole.length / megabyte).toBeLessThan(18)
  expect(item.cut).toEqual([{ at: '/command/stdout', chars: whole.length, rest: '' }])
})

it('tells once how long a text is that grew past what a state holds, and where the rest is', async () => {
  const delta = (text: string): Said => tell('text_delta', { text })
  const { record, entries } = await journalAll(world, [
    begin(),
    ...Array.from({ length: 12 }, () => delta('y'.repeat(100 * 1024))),
  ])
  const through = entries.at(-1)!.seq
  const range = {
    before: { seq: asSeq(through + 1), index: 0 },
    through,
    replacing: entries[0]!.seq,
    maxItems: 10,
    maxBytes: 1e6,
  }
  const page = await readItems(world.folding, sightOf(record), range)
  expect(page.items[0]?.cut).toEqual([
    { at: '/text', chars: 12 * 100 * 1024, rest: expect.stringContaining('/rest?at=%2Ftext') },
  ])
})
