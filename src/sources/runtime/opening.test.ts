import { expect, test } from 'vitest'
import type { Envelope } from '../../journal/entry.ts'
import { ENDS } from './ends.ts'
import { AFRESH, AWAITED, type Happening, isStandIn, STEPS, type State, type Verdict } from './opening.ts'

const states = Object.keys(STEPS) as State[]
const happenings = Object.keys(STEPS.opening) as Happening[]
const every = states.flatMap(from => happenings.map(what => ({ from, what, ...STEPS[from][what] })))

test('only a verdict leads to belief, and only one that begins a list or goes on with it', () => {
  const ways = every.filter(({ from, to }) => to === 'believed' && from !== 'believed')
  expect(ways).toEqual([
    { from: 'judging', what: 'fresh', to: 'believed', act: 'release' },
    { from: 'judging', what: 'proven', to: 'believed', act: 'release' },
  ])
})

test('a connection is judged at its fence; at a diagnostic too where a cursor was asked from', () => {
  const ways = every.filter(({ from, to }) => to === 'judging' && from !== 'judging')
  expect(ways.map(({ from, what, act }) => `${from} ${what} ${act}`)).toEqual([
    'fencing pong judge',
    'answering farewell judge',
    'proving farewell judge',
    'proving pong judge',
    'glancing snapshot judge',
  ])
})

test('nothing is handed on before belief', () => {
  expect(every.filter(({ act }) => act === 'hand_on').map(({ from }) => from)).toEqual([
    'believed',
    'believed',
    'believed',
  ])
})

test('only a snapshot that comes first brings a connection to its fence', () => {
  const ways = every.filter(({ from, act }) => act === 'ping' || (from === 'greeting' && act === 'hold'))
  expect(ways).toEqual([
    { from: 'greeting', what: 'snapshot', to: 'fencing', act: 'ping' },
    { from: 'answering', what: 'snapshot', to: 'proving', act: 'ping' },
  ])
})

test('a judge who is not asked changes nothing', () => {
  const verdicts: Verdict['verdict'][] = [
    'fresh',
    'stand_in',
    'glanced',
    'proven',
    'retry_from_zero',
    'not_proven',
  ]
  for (const from of states.filter(state => state !== 'judging'))
    for (const verdict of verdicts) expect(STEPS[from][verdict]).toEqual({ to: from, act: 'none' })
})

test('what is over stays over, and everything that ends says how', () => {
  expect(every.filter(({ from, to }) => from === 'over' && to !== 'over')).toEqual([])
  for (const { from, to, act, end } of every) {
    if (to !== 'over' || from === 'over') continue
    expect(act).toBe('end')
    expect(Object.keys(ENDS)).toContain(end)
  }
})

test('every state that waits for the other side has a time for it, and an end when that has passed', () => {
  for (const state of states.filter(name => !['judging', 'over'].includes(name))) {
    expect(AWAITED[state]).toBeDefined()
    expect(STEPS[state].late.to).toBe('over')
  }
})

test('the stand-in of a stopped worker is told by its provider', () => {
  const snapshot = (data: object): Envelope => ({
    eventId: 'snapshot:1',
    payload: '',
    parsed: { event: 'snapshot', data },
    time: 1,
  })
  const of = (provider: string) => snapshot({ entries: [], greeting: { provider } })
  expect(isStandIn(of('worker-runtime'))).toBe(true)
  expect(isStandIn(of('anthropic'))).toBe(false)
  expect(isStandIn(snapshot({}))).toBe(false)
  expect(isStandIn(null)).toBe(false)
  const judge = (provider: string) => AFRESH.judge({ snapshot: of(provider), held: [], diagnostic: null })
  expect(judge('worker-runtime')).toEqual({ verdict: 'stand_in' })
  expect(judge('anthropic')).toEqual({ verdict: 'fresh' })
})
