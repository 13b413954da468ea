import { expect, it } from 'vitest'
import { RESYNC_STEPS, type ResyncHappening, type ResyncState } from './resync.ts'

const states = Object.keys(RESYNC_STEPS) as ResyncState[]
const happenings = Object.keys(RESYNC_STEPS.away) as ResyncHappening[]
const every = states.flatMap(from => happenings.map(what => ({ from, what, ...RESYNC_STEPS[from][what] })))
const named = (ways: typeof every) => ways.map(({ from, what, to }) => `${from} ${what} ${to}`)

it('fetches one snapshot at a time, and only while a connection stands and the time has passed', () => {
  expect(named(every.filter(({ act }) => act === 'fetch'))).toEqual(['watching called fetching'])
  expect(named(every.filter(({ from, to }) => to === 'watching' && from !== 'watching'))).toEqual([
    'spacing spaced watching',
  ])
})

it('takes a snapshot only behind the fence of the connection that stands', () => {
  expect(named(every.filter(({ act }) => act === 'take'))).toEqual(['fencing passed spacing'])
  expect(named(every.filter(({ to, from }) => to === 'fencing' && from !== 'fencing'))).toEqual([
    'fetching shown fencing',
  ])
})

it('leaves off whatever it does when the connection falls', () => {
  for (const state of states.filter(name => name !== 'away'))
    expect(RESYNC_STEPS[state].falls).toEqual({ to: 'away', act: 'leave' })
  expect(every.filter(({ from, to }) => from === 'away' && to !== 'away')).toMatchObject([
    { what: 'stands', to: 'spacing', act: 'space' },
  ])
})
