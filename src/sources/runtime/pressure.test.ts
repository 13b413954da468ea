import { expect, test } from 'vitest'
import { CollectingSink } from '../../../test/_support/collecting-sink.ts'
import { type Flow, Pressure } from './pressure.ts'

const story = () => {
  const sink = new CollectingSink()
  sink.maxQueuedBytes = 1_000
  const told: string[] = []
  const control = new AbortController()
  const pressure = new Pressure(sink, control.signal, worker => told.push(`paused ${worker}`))
  const flow = (worker: string): Flow => {
    const made = { worker, pause: () => told.push(`stop ${worker}`), resume: () => told.push(`go ${worker}`) }
    pressure.add(made)
    return made
  }
  return { sink, told, control, pressure, flow }
}

test('below the bound nobody stands still', () => {
  const { pressure, told, sink, flow } = story()
  sink.queuedBytes = 1_000
  pressure.handed(flow('a'), 5_000)
  expect(told).toEqual([])
})

test('past the bound the largest sender stands still first, then one with each frame that still comes', () => {
  const { pressure, told, sink, flow } = story()
  const [small, large, middle] = [flow('small'), flow('large'), flow('middle')]
  pressure.handed(small, 10)
  pressure.handed(large, 500)
  pressure.handed(middle, 400)
  sink.queuedBytes = 1_001
  pressure.handed(small, 10)
  expect(told).toEqual(['stop large', 'paused large'])
  pressure.handed(small, 10)
  expect(told.slice(2)).toEqual(['stop middle', 'paused middle'])
})

test('past twice the bound all stand still', () => {
  const { pressure, told, sink, flow } = story()
  flow('a')
  flow('b')
  sink.queuedBytes = 2_001
  pressure.handed(flow('c'), 1)
  expect(told.filter(what => what.startsWith('stop')).sort()).toEqual(['stop a', 'stop b', 'stop c'])
})

test('all go on when the sink is relieved, but for those that ended meanwhile', async () => {
  const { pressure, told, sink, flow } = story()
  const [a, b] = [flow('a'), flow('b')]
  sink.queuedBytes = 2_001
  pressure.handed(a, 1)
  pressure.delete(b)
  let clear = false
  const cleared = pressure.clear().then(() => {
    clear = true
  })
  await Promise.resolve()
  expect(clear).toBe(false)
  sink.relieve()
  await cleared
  expect(told.filter(what => what.startsWith('go'))).toEqual(['go a'])
})

test('nobody waits for relief past the end', async () => {
  const { pressure, sink, control, flow } = story()
  sink.queuedBytes = 2_001
  pressure.handed(flow('a'), 1)
  control.abort()
  await pressure.clear()
})

test('what was sent long ago counts less', () => {
  const { pressure, told, sink, flow } = story()
  const [before, now] = [flow('before'), flow('now')]
  pressure.handed(before, 1_000)
  for (let i = 0; i < 4; i += 1) pressure.age()
  sink.queuedBytes = 1_001
  pressure.handed(now, 100)
  expect(told[0]).toBe('stop now')
})
