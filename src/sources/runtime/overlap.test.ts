import { describe, expect, it } from 'vitest'
import { isDistinctive } from '../../journal/continuity/distinctive.ts'
import {
  compareAtFence,
  type FenceAct,
  judgeOverlap,
  type Reconnection,
  type SeenEvent,
  type SnapshotComparison,
  type Stored,
} from './overlap.ts'

const id = (n: number): string => `wo_${n.toString(16).padStart(16, '0')}`
const seen = (n: number, mac = `mac ${n}`): SeenEvent => ({ cursor: id(n), eventId: id(n), mac })
const range = (from: number, to: number): SeenEvent[] =>
  Array.from({ length: to - from + 1 }, (_, i) => seen(from + i))

const storedOf = (events: readonly SeenEvent[], more: Partial<Stored> = {}): Stored => ({
  events: events.map(event => ({ ...event, distinctive: false })),
  snapshot: null,
  status: 'idle',
  saysNothing: false,
  ...more,
})

type Change = Partial<Omit<Reconnection, 'snapshot'>> & { snapshot?: Partial<Reconnection['snapshot']> }

const reconnection = (frames: readonly SeenEvent[], { snapshot, ...rest }: Change = {}): Reconnection => ({
  asked: 'oldest',
  snapshot: {
    cursor: id(1),
    mac: 'snapshot',
    status: 'running',
    comparison: 'differs',
    empty: false,
    ...snapshot,
  },
  frames,
  diagnostic: null,
  ...rest,
})

const atRest: Change = { snapshot: { status: 'idle', comparison: 'same' } }
const notProven = (reason: string): object => ({ verdict: 'not_proven', reason })

describe('what came again', () => {
  const stored = storedOf(range(1, 16))

  it('proves a resume by four events that match, and says where the new ones begin', () => {
    expect(judgeOverlap(stored, reconnection(range(13, 20)))).toEqual({ verdict: 'proven', firstNew: 4 })
    expect(judgeOverlap(stored, reconnection(range(2, 16)))).toEqual({ verdict: 'proven', firstNew: 15 })
  })

  it('takes three events that every life of a Runtime begins with for no proof', () => {
    const three = storedOf(range(1, 3), { status: 'running' })
    expect(judgeOverlap(three, reconnection(range(2, 30)))).toEqual(notProven('upstream_unverifiable'))
    expect(judgeOverlap(three, reconnection(range(1, 30), { asked: 'zero' }))).toEqual(
      notProven('upstream_unverifiable'),
    )
  })

  it('takes one event for proof that no other life can have', () => {
    const events = range(1, 3).map((event, i) => ({ ...event, distinctive: i === 2 }))
    const verdict = judgeOverlap({ ...stored, events }, reconnection(range(3, 5)))
    expect(verdict).toEqual({ verdict: 'proven', firstNew: 1 })
  })

  it('counts an event that is delivered twice once', () => {
    const doubled = [...range(13, 16), ...range(14, 16), seen(17)]
    expect(judgeOverlap(stored, reconnection(doubled))).toEqual({ verdict: 'proven', firstNew: 7 })
    const later = [...range(13, 17), seen(16), seen(18)]
    expect(judgeOverlap(stored, reconnection(later))).toEqual({ verdict: 'proven', firstNew: 4 })
    const twoTwice = [seen(15), seen(15), seen(16), seen(16)]
    expect(judgeOverlap(stored, reconnection(twoTwice))).toEqual(notProven('upstream_unverifiable'))
  })

  it('does not believe events in another order, or with a hole', () => {
    const swapped = [seen(12), seen(14), seen(13), seen(15), seen(16)]
    expect(judgeOverlap(stored, reconnection(swapped))).toEqual(notProven('upstream_unverifiable'))
    const hole = [...range(9, 13), ...range(15, 16)]
    expect(judgeOverlap(stored, reconnection(hole))).toEqual(notProven('upstream_unverifiable'))
  })

  it('knows another life by a stored id that names another event', () => {
    const frames = [...range(2, 15), seen(16, 'other')]
    expect(judgeOverlap(stored, reconnection(frames))).toEqual(notProven('upstream_restarted'))
    const after = [...range(2, 17), seen(3, 'other')]
    expect(judgeOverlap(stored, reconnection(after))).toEqual(notProven('upstream_restarted'))
  })

  it('knows another life by its newest event being numbered below ours', () => {
    const ours = storedOf(range(100, 115))
    expect(judgeOverlap(ours, reconnection(range(1, 30), { asked: 'zero', ...atRest }))).toEqual(
      notProven('upstream_restarted'),
    )
    expect(judgeOverlap(stored, reconnection(range(2, 10), atRest))).toEqual(notProven('upstream_restarted'))
  })

  it('calls unknown events in the place of ours, and newer ones alone, a gap', () => {
    const between = [...range(2, 8), { ...seen(8), eventId: 'unknown' }, ...range(9, 16)]
    expect(judgeOverlap(stored, reconnection(between))).toEqual(notProven('upstream_gap'))
    const before = [{ ...seen(2), eventId: 'unknown' }, ...range(3, 16)]
    expect(judgeOverlap(stored, reconnection(before))).toEqual(notProven('upstream_gap'))
    const instead = [...range(2, 10), ...range(17, 20)]
    expect(judgeOverlap(stored, reconnection(instead))).toEqual(notProven('upstream_gap'))
    expect(judgeOverlap(stored, reconnection(range(40, 50)))).toEqual(notProven('upstream_gap'))
  })

  it('lets events that are older than the stored ones stand before them when all is asked for', () => {
    const ours = storedOf(range(10, 25))
    const frames = range(1, 30)
    expect(judgeOverlap(ours, reconnection(frames, { asked: 'zero' }))).toEqual({
      verdict: 'proven',
      firstNew: 25,
    })
    expect(judgeOverlap(ours, reconnection(frames))).toEqual(notProven('upstream_gap'))
    expect(judgeOverlap(ours, reconnection([seen(1), ...range(12, 25)], { asked: 'zero' }))).toEqual(
      notProven('upstream_gap'),
    )
  })
})

describe('a worker at rest', () => {
  const stored = storedOf(range(1, 16))

  it.each([3, 2, 1, 0])('goes on with %i of its events retained, if its snapshot says the same', n => {
    const frames = range(17 - n, 16)
    expect(judgeOverlap(stored, reconnection(frames, atRest))).toEqual({ verdict: 'proven', firstNew: n })
    const begun = [...frames, ...range(17, 19)]
    expect(judgeOverlap(stored, reconnection(begun, atRest))).toEqual({ verdict: 'proven', firstNew: n })
  })

  it('needs a snapshot that is at rest as we are, says the same, and says something', () => {
    const frames = range(15, 16)
    const unverifiable = notProven('upstream_unverifiable')
    const judge = (change: Change, more: Partial<Stored> = {}): object =>
      judgeOverlap({ ...stored, ...more }, reconnection(frames, change))
    expect(judge({ snapshot: { status: 'idle', comparison: 'more' } })).toEqual(unverifiable)
    expect(judge({ snapshot: { status: 'idle', comparison: 'differs' } })).toEqual(unverifiable)
    expect(judge({ snapshot: { status: 'running', comparison: 'same' } })).toEqual(unverifiable)
    expect(judge({ snapshot: { status: 'paused', comparison: 'same' } })).toEqual(unverifiable)
    expect(judge(atRest, { status: 'running' })).toEqual(unverifiable)
    expect(judge(atRest, { saysNothing: true })).toEqual(unverifiable)
    expect(judge({ snapshot: { ...atRest.snapshot, empty: true } })).toEqual(unverifiable)
  })

  it('knows from a snapshot that says more that events are missing without any diagnostic', () => {
    const verdict = judgeOverlap(
      stored,
      reconnection([], { snapshot: { status: 'idle', comparison: 'more' } }),
    )
    expect(verdict).toEqual(notProven('upstream_gap'))
  })

  it('knows from an empty snapshot that the worker is another one', () => {
    const verdict = judgeOverlap(
      stored,
      reconnection([], { asked: 'zero', snapshot: { status: 'idle', comparison: 'differs', empty: true } }),
    )
    expect(verdict).toEqual(notProven('upstream_restarted'))
  })
})

describe('a position with a snapshot only', () => {
  const stored = storedOf([], { snapshot: { cursor: id(5), mac: 'bytes' } })
  const judge = (cursor: string, mac: string, frames: readonly SeenEvent[] = []): object =>
    judgeOverlap(stored, reconnection(frames, { snapshot: { cursor, mac, ...atRest.snapshot } }))

  it('is proven by an equal cursor and equal bytes alone', () => {
    expect(judge(id(5), 'bytes')).toEqual({ verdict: 'proven', firstNew: 0 })
    expect(judge(id(5), 'bytes', range(6, 9))).toEqual({ verdict: 'proven', firstNew: 0 })
    expect(judge(id(5), 'other bytes')).toEqual(notProven('upstream_unverifiable'))
    expect(judge(id(0), 'bytes')).toEqual(notProven('upstream_unverifiable'))
  })

  it('is never proven without even that', () => {
    expect(judgeOverlap(storedOf([]), reconnection([], atRest))).toEqual(notProven('upstream_unverifiable'))
  })
})

describe('a diagnostic', () => {
  const stored = storedOf(range(1, 16))
  const judge = (diagnostic: string, asked: Reconnection['asked']): object =>
    judgeOverlap(stored, reconnection([], { diagnostic, asked, ...atRest }))

  it('that refuses the oldest cursor asks once more, from zero', () => {
    expect(judge('runtime.cursor_unknown_or_expired', 'oldest')).toEqual({ verdict: 'retry_from_zero' })
    expect(judge('runtime.cursor_unknown_or_expired', 'zero')).toEqual(notProven('upstream_unverifiable'))
  })

  it('of an overrun is a gap, of anything else proves nothing', () => {
    expect(judge('runtime.cursor_expired', 'oldest')).toEqual(notProven('upstream_gap'))
    expect(judge('runtime.cursor_malformed', 'oldest')).toEqual(notProven('upstream_unverifiable'))
    expect(judge('', 'zero')).toEqual(notProven('upstream_unverifiable'))
  })
})

it('an event is distinctive by text of the model or an id, and not by what was sent to the worker', () => {
  expect(isDistinctive('text_delta', { text: 'Hello, Wo' })).toBe(true)
  expect(isDistinctive('thinking_done', { text: 'The user wants' })).toBe(true)
  expect(isDistinctive('tool_call_args_delta', { id: 'toolu_0123', json: '{' })).toBe(true)
  expect(isDistinctive('tool_result', { id: 'toolu_0123', summary: '' })).toBe(true)
  expect(isDistinctive('compact_done', { new_segment_id: '01a22d30-f856' })).toBe(true)
  expect(isDistinctive('text_delta', { text: '       \n ok' })).toBe(false)
  expect(isDistinctive('tool_result', { id: 'call_0', summary: 'a long summary' })).toBe(false)
  expect(isDistinctive('user_message', { segments: [{ kind: 'text', content: 'Build it all again' }] })).toBe(
    false,
  )
  expect(isDistinctive('turn_start', { turn: 0 })).toBe(false)
  expect(isDistinctive('thinking_start', {})).toBe(false)
})

describe('the snapshot of a proven resume', () => {
  const all: SnapshotComparison[] = ['same', 'more', 'differs']
  const acts = (ours: string | null, snapshot: string, followed = false): FenceAct[] =>
    all.map(comparison => compareAtFence({ followed, ours, snapshot, comparison }))

  it('is not compared if anything came between overlap and fence', () => {
    for (const [ours, snapshot] of [
      ['running', 'running'],
      ['idle', 'running'],
      ['idle', 'idle'],
    ] as const)
      expect(acts(ours, snapshot, true)).toEqual(['nothing', 'nothing', 'nothing'])
  })

  it('still tells a run that died with its Runtime, though the last words of it came', () => {
    expect(acts('running', 'idle', true)).toEqual(Array(3).fill('wait_for_mismatch'))
  })

  it('waits for events if it is idle and we are running', () => {
    expect(acts('running', 'idle')).toEqual(['wait_for_mismatch', 'wait_for_mismatch', 'wait_for_mismatch'])
    expect(acts('idle', 'running')).toEqual(['wait_for_mismatch', 'wait_for_mismatch', 'wait_for_mismatch'])
  })

  it('makes a resync due if both are running', () => {
    expect(acts('running', 'running')).toEqual(['resync_due', 'resync_due', 'resync_due'])
  })

  it('at rest is nothing if it says the same, a resync if it says more, and waited for if it differs', () => {
    expect(acts('idle', 'idle')).toEqual(['nothing', 'resync_due', 'wait_for_mismatch'])
    expect(acts('paused', 'idle')).toEqual(['nothing', 'resync_due', 'wait_for_mismatch'])
  })
})
