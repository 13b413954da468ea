import { expect, test } from 'vitest'
import type { StatusChange } from '../source.ts'
import { StatusBoard } from './status-board.ts'

const story = () => {
  let now = 1_000
  const told: StatusChange[] = []
  const board = new StatusBoard(
    'rt',
    () => now,
    change => told.push(change),
  )
  return { told, board, pass: (ms: number) => (now += ms) }
}

test('only a change is told, and a state keeps its beginning while its code changes', () => {
  const { told, board, pass } = story()
  board.set('1', 'reconnecting', 'upstream_closed')
  pass(10)
  board.set('1', 'reconnecting', 'upstream_closed')
  board.set('1', 'reconnecting', 'upstream_unreachable')
  pass(10)
  board.set('1', 'live')
  expect(told).toEqual([
    { runtime: 'rt', worker: '1', upstream: 'reconnecting', code: 'upstream_closed', since: 1_000 },
    { runtime: 'rt', worker: '1', upstream: 'reconnecting', code: 'upstream_unreachable', since: 1_000 },
    { runtime: 'rt', worker: '1', upstream: 'live', since: 1_020 },
  ])
})

test('a worker that nothing was said of is as its Runtime is, or not there', () => {
  const { board } = story()
  expect(board.of('1')).toMatchObject({ worker: '1', upstream: 'reconnecting' })
  board.set(undefined, 'live')
  expect(board.of()).toEqual({ runtime: 'rt', upstream: 'live', since: 1_000 })
  expect(board.of('1')).toMatchObject({ worker: '1', upstream: 'gone', code: 'upstream_worker_gone' })
  board.set('1', 'live')
  expect(board.of('1').upstream).toBe('live')
  board.forget('1')
  expect(board.of('1').upstream).toBe('gone')
})
