import { expect, it } from 'vitest'
import { asSeq } from './entry.ts'
import { expandList } from './expand.ts'

it('expands the log of a very long session', () => {
  const entry = {
    kind: 'assistant_item',
    ts: 1,
    item: { kind: 'message', role: 'assistant', content: [{ kind: 'text', text: 'x' }] },
  }
  const data = { entries: new Array(200_000).fill(entry), status: 'idle' }
  const { list } = expandList('snapshot', data, asSeq(1), { status: null })
  expect(list.filter(({ event }) => event === 'text_done')).toHaveLength(200_000)
})
