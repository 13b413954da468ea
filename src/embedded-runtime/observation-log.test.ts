import { describe, expect, test } from 'vitest'
import { formatCursor, parseCursor } from './cursor.ts'
import { ObservationLog } from './observation-log.ts'

const log = (backlogEvents: number, storedEvents = 0): ObservationLog =>
  new ObservationLog({ backlogEvents, queueEvents: 4, storedEvents })

const say = (into: ObservationLog, workerId: string, count: number): void => {
  for (let said = 0; said < count; said += 1) {
    const position = into.take()
    into.retain({ position, workerId, frame: `${workerId}:${position}` })
  }
}

describe('a cursor', () => {
  test('is wo_ and sixteen hex digits', () => {
    expect(formatCursor(26)).toBe('wo_000000000000001a')
    expect(formatCursor(0xffff_ffff_ffff_ffffn)).toBe('wo_ffffffffffffffff')
  })

  test.each(['wo_000000000000001A', 'wo_+00000000000001a', 'wo_000000000000001a'])('is read from %s', raw => {
    expect(parseCursor(raw)).toBe(26n)
  })

  test.each([
    '',
    'abc',
    'wo_1',
    'wo_00000000000000zz',
    'WO_0000000000000001',
    'wo_-000000000000001',
    'snapshot:wo_0000000000000001',
  ])('is malformed as %j', raw => {
    expect(parseCursor(raw)).toBeUndefined()
  })
})

describe('the observation log', () => {
  test('keeps the newest events of all workers together: a busy one evicts a quiet one', () => {
    const kept = log(4)
    say(kept, 'quiet', 2)
    say(kept, 'busy', 3)
    expect(kept.firstOf('quiet')).toBe(2)
    say(kept, 'busy', 1)
    expect(kept.firstOf('quiet')).toBeUndefined()
    expect(kept.lastOf('quiet')).toBeUndefined()
    expect(kept.after('busy', 0n)).toEqual(['busy:3', 'busy:4', 'busy:5', 'busy:6'])
  })

  test('gives what follows a position, of one worker', () => {
    const kept = log(10)
    say(kept, 'a', 2)
    say(kept, 'b', 2)
    expect(kept.after('a', 1n)).toEqual(['a:2'])
    expect(kept.after('b', 1n)).toEqual(['b:3', 'b:4'])
    expect(kept.after('a', 0xffff_ffff_ffff_ffffn)).toEqual([])
  })

  test('does not count what was evicted by hand against the others', () => {
    const kept = log(4)
    say(kept, 'a', 3)
    kept.evict('a', 1)
    say(kept, 'b', 3)
    expect(kept.after('a', 0n)).toEqual(['a:3'])
  })

  test('gives back from its store what the backlog had evicted, until the next event', () => {
    const kept = log(2, 100)
    say(kept, 'a', 5)
    kept.restore()
    expect(kept.after('a', 0n)).toHaveLength(5)
    say(kept, 'a', 1)
    expect(kept.after('a', 0n)).toEqual(['a:5', 'a:6'])
  })

  test('numbers on from the highest that is left in the store', () => {
    const kept = log(10, 100)
    say(kept, 'a', 2)
    say(kept, 'gone', 3)
    kept.forget('gone')
    expect(kept.next).toBe(6)
    kept.restore()
    expect(kept.next).toBe(3)
  })

  test('tells from its short queue only what belongs to a worker', () => {
    const kept = log(10)
    kept.enqueue('a', 'one')
    kept.enqueue('b', 'two')
    expect([kept.queuedFor('a', 0), kept.queuedFor('a', 1), kept.queuedFor('b', 1)]).toEqual([
      'one',
      undefined,
      'two',
    ])
  })
})
