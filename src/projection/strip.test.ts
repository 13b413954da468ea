import type { Class } from '@shoji/web-contract'
import { expect, it } from 'vitest'
import { parseJson } from '../lib/json.ts'
import { createStrip } from './strip.ts'

const strip = (classes: readonly Class[], event: string, data: Record<string, unknown>): unknown => {
  const stripped = createStrip(classes).event(event, data)
  if (stripped === null) return null
  expect(parseJson(stripped.payload)).toEqual({ event, data: stripped.data })
  return stripped.data
}

it('leaves an event alone that has nothing to do with what is removed', () => {
  expect(strip(['thinking'], 'text_done', { text: 'said', new_field: 1 })).toBeNull()
  expect(strip(['thinking'], 'unheard_of', { text: 'said' })).toBeNull()
})

it('empties the fields of a class and keeps ids, and says what is gone', () => {
  const data = { id: 'c1', name: 'bash', arguments: '{"a":1}', new_field: 'x' }
  expect(strip(['tool_args'], 'tool_call_done', data)).toEqual({ id: 'c1', name: 'bash', arguments: '{}' })
  expect(createStrip(['tool_args']).event('tool_call_done', data)?.notKept).toEqual(['tool_args'])
})

it('makes the name of a tool null, so that no rule for one tool applies', () => {
  expect(strip(['tool_call'], 'tool_call_start', { id: 'c1', name: 'bash' })).toEqual({
    id: 'c1',
    name: null,
  })
})

it('keeps numbers beyond 2^53 exact in what it builds anew', () => {
  const data = parseJson('{"turn":18446744073709551615,"result":"finished"}') as Record<string, unknown>
  expect(createStrip(['lifecycle']).event('turn_end', data)?.data).toEqual({ turn: 0, result: '' })
  const usage = parseJson('{"kind":"x","worker":{"session_id":"s"},"revision":18446744073709551615}')
  const nested = { ...(usage as object), event: { event: 'text_done', data: { text: 'x' } } }
  expect(createStrip(['assistant_text']).event('internal_worker', nested)?.payload).toContain(
    '"revision":18446744073709551615',
  )
})

it('removes reasoning from a snapshot wherever it stands, with its summary, signature and encrypted text', () => {
  const reasoning = {
    kind: 'reasoning',
    text: 'T',
    summary: ['S'],
    encrypted_content: 'E',
    signature: 'G',
    other: 'O',
  }
  const said = { kind: 'message', role: 'assistant', content: [{ kind: 'text', text: 'said' }] }
  const entries = [
    { kind: 'segment_start', ts: 1, system_prompt: 'prompt', history: [reasoning, said], config: { x: 'C' } },
    { kind: 'assistant_item', ts: 2, item: reasoning },
    { kind: 'assistant_item', ts: 3, item: said },
  ]
  const bare = { kind: 'reasoning', text: '', summary: [''] }
  const kept = [
    { kind: 'segment_start', ts: 1, system_prompt: 'prompt', history: [bare, said] },
    { kind: 'assistant_item', ts: 2, item: bare },
    { kind: 'assistant_item', ts: 3, item: said },
  ]
  const block = { kind: 'thinking', text: 'T' }
  const worker = {
    worker: { session_id: 's', name: 'n' },
    revision: 1,
    entries,
    in_flight: { blocks: [block] },
  }
  expect(
    strip(['thinking'], 'snapshot', {
      entries,
      status: 'running',
      in_flight: { blocks: [block], commands: [] },
      internal_workers: [{ ...worker, internal_workers: [worker] }],
    }),
  ).toEqual({
    entries: kept,
    status: 'running',
    in_flight: { blocks: [{ kind: 'thinking', text: '' }], commands: [] },
    internal_workers: [
      {
        worker: { session_id: 's', name: 'n' },
        revision: 1,
        entries: kept,
        in_flight: { blocks: [{ kind: 'thinking', text: '' }], commands: [] },
        internal_workers: [
          {
            worker: { session_id: 's', name: 'n' },
            revision: 1,
            entries: kept,
            in_flight: { blocks: [{ kind: 'thinking', text: '' }], commands: [] },
          },
        ],
      },
    ],
  })
})

it('goes by the role of a message', () => {
  const message = (role: string) => ({ kind: 'message', role, content: [{ kind: 'text', text: role }] })
  const data = {
    entries: ['user', 'assistant', 'system'].map(r => ({ kind: 'assistant_item', item: message(r) })),
  }
  const texts = (classes: readonly Class[]): unknown =>
    (
      strip(classes, 'snapshot', data) as { entries: { item: { content: { text: string }[] } }[] }
    ).entries.map(e => e.item.content[0]?.text)
  expect(texts(['user_input'])).toEqual(['', 'assistant', 'system'])
  expect(texts(['assistant_text'])).toEqual(['user', '', 'system'])
  expect(texts(['system'])).toEqual(['user', 'assistant', ''])
})

it('removes what a rewind gives back to its author', () => {
  const data = { entries: [], input: [{ kind: 'text', content: 'typed' }], summary: 'typed' }
  expect(strip(['user_input'], 'rewind_applied', data)).toEqual({
    entries: [],
    input: [{ kind: 'text', content: '' }],
  })
})

it('keeps nothing of answers to one client once anything must not be stored', () => {
  expect(strip(['thinking'], 'rewind_targets', { targets: [{ preview: 'typed' }] })).toEqual({})
})

it('removes unknown events and log kinds only where their class is named', () => {
  const data = { entries: [{ kind: 'novel', secret: 'x' }] }
  expect(strip(['unknown'], 'unheard_of', { anything: 1 })).toEqual({})
  expect(strip(['unknown'], 'snapshot', data)).toEqual({ entries: [{ kind: 'novel' }] })
  expect(strip(['thinking'], 'snapshot', data)).toEqual(data)
})
