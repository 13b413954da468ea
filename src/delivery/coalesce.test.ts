import type { Frame } from '@shoji/web-contract'
import { expect, it } from 'vitest'
import { coalesce } from './coalesce.ts'

let ids = 0
const envelope = (
  worker: string,
  event: string,
  text: string,
  more: Partial<Extract<Frame, { event: 'envelope' }>['data']> = {},
): Frame => ({
  event: 'envelope',
  id: `${++ids}`,
  data: { runtime: 'rt', worker, time: ids, event, data: { text }, item: worker, block: worker, ...more },
})

const outline = (frames: readonly Frame[]): string[] =>
  frames.map(f => (f.event === 'envelope' ? `${f.data.worker} ${f.data.event} ${f.data.data.text}` : f.event))

it('joins neighbouring deltas of one block under the id of the last', () => {
  const frames = [envelope('a', 'text_delta', 'x', { begins: true }), envelope('a', 'text_delta', 'y')]
  const joined = coalesce(frames)
  expect(outline(joined)).toEqual(['a text_delta xy'])
  expect(joined[0]).toMatchObject({ id: frames[1]!.id, data: { begins: true } })
})

it('leaves out deltas right before the end of their text', () => {
  const frames = [envelope('a', 'text_delta', 'x', { begins: true }), envelope('a', 'text_done', 'xy')]
  expect(outline(coalesce(frames))).toEqual(['a text_done xy'])
  expect(coalesce(frames)[0]).toMatchObject({ data: { begins: true } })
})

it('joins nothing over the frame of another worker: a client cut there would miss what stood before', () => {
  const frames = [
    envelope('a', 'text_delta', 'x'),
    envelope('b', 'text_delta', 'p'),
    envelope('a', 'text_delta', 'y'),
    envelope('b', 'text_done', 'pq'),
    envelope('a', 'text_done', 'xy'),
  ]
  expect(coalesce(frames)).toEqual(frames)
})

it('joins nothing over frames that are no envelopes', () => {
  const gap: Frame = {
    event: 'gap',
    id: 'g',
    data: { runtime: 'rt', worker: 'a', reason: 'upstream_frame_rejected' },
  }
  const frames = [envelope('a', 'text_delta', 'x'), gap, envelope('a', 'text_delta', 'y')]
  expect(coalesce(frames)).toEqual(frames)
})

it('joins nothing of different blocks, of what ends a block, or of what is cut or withheld', () => {
  const apart = [
    [envelope('a', 'text_delta', 'x'), envelope('a', 'text_delta', 'y', { block: 'other' })],
    [envelope('a', 'text_delta', 'x'), envelope('a', 'thinking_delta', 'y')],
    [envelope('a', 'text_done', 'x'), envelope('a', 'text_delta', 'y')],
    [envelope('a', 'text_delta', 'x'), envelope('a', 'text_delta', 'y', { begins: true })],
    [
      envelope('a', 'text_delta', 'x'),
      envelope('a', 'text_done', 'y', { tails: [{ block: 'b', text: '' }] }),
    ],
    [
      envelope('a', 'text_delta', 'x', { cut: [{ at: '/data/text', chars: 2, rest: '/r' }] }),
      envelope('a', 'text_delta', 'y'),
    ],
  ]
  for (const frames of apart) expect(coalesce(frames)).toEqual(frames)
})

it('keeps a joined text under the bound of a leaf', () => {
  const frames = Array.from({ length: 5 }, () => envelope('a', 'text_delta', 'x'.repeat(16 * 1024)))
  const joined = coalesce(frames)
  expect(joined).toHaveLength(3)
  expect(joined.every(f => f.event === 'envelope' && String(f.data.data.text).length <= 32 * 1024)).toBe(true)
})
