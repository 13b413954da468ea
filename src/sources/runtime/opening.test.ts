import { expect, test } from 'vitest'
import { ENDS } from './ends.ts'
import { type Happening, judgeOpening, STEPS, type State } from './opening.ts'

const states = Object.keys(STEPS) as State[]
const happenings = Object.keys(STEPS.opening) as Happening[]
const every = states.flatMap(from => happenings.map(what => ({ from, what, ...STEPS[from][what] })))

test('only the pong to the fence leads to belief', () => {
  const ways = every.filter(({ from, to }) => to === 'believed' && from !== 'believed')
  expect(ways).toEqual([{ from: 'fencing', what: 'pong', to: 'believed', act: 'release' }])
})

test('nothing is handed on before belief', () => {
  expect(every.filter(({ act }) => act === 'hand_on').map(({ from }) => from)).toEqual([
    'believed',
    'believed',
    'believed',
  ])
})

test('only a snapshot that comes first brings a connection to its fence', () => {
  const ways = every.filter(({ from, to }) => to === 'fencing' && from !== 'fencing')
  expect(ways).toEqual([{ from: 'greeting', what: 'snapshot', to: 'fencing', act: 'ping' }])
})

test('what is over stays over, and everything that ends says how', () => {
  expect(every.filter(({ from, to }) => from === 'over' && to !== 'over')).toEqual([])
  for (const { from, to, act, end } of every) {
    if (to !== 'over' || from === 'over') continue
    expect(act).toBe('end')
    expect(Object.keys(ENDS)).toContain(end)
  }
})

test('the stand-in of a stopped worker is told by its provider', () => {
  const snapshot = (provider: string) => ({
    event: 'snapshot',
    data: { entries: [], greeting: { provider } },
  })
  expect(judgeOpening(snapshot('worker-runtime'))).toBe('stand_in')
  expect(judgeOpening(snapshot('anthropic'))).toBe('fresh')
  expect(judgeOpening({ event: 'snapshot' })).toBe('fresh')
})
