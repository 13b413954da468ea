/** `journal.never_store` from the configuration to the bytes of the file and of the stream. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { misbehave } from '../../src/embedded-runtime/misbehave.ts'
import { bearer, eventually, saw, startFlow, stateOf, tell } from '../_support/flow.ts'

const bytesOf = (directory: string): string =>
  readdirSync(join(directory, 'data'))
    .map(name => readFileSync(join(directory, 'data', name), 'latin1'))
    .join('\n')

it('keeps classes out of the file and the stream, live, in snapshots and over a restart', async () => {
  await using flow = await startFlow({
    worker: { log: 'on' },
    extra: 'journal: { never_store: [thinking, tool_args] }',
  })
  const { worker } = flow
  using live = await flow.open()
  await live.untilLive()
  worker.emit({ event: 'status', data: { status: 'running' } })
  worker.emit({ event: 'thinking_start' })
  worker.emit({ event: 'thinking_delta', data: { text: 'GONE live' } })
  worker.emit({ event: 'thinking_done', data: { text: 'GONE done' } })
  worker.emit({ event: 'tool_call_start', data: { id: 'c', name: 'Bash' } })
  worker.emit({ event: 'tool_call_args_delta', data: { id: 'c', json: '{"a":"GONE args"}' } })
  worker.emit({ event: 'tool_call_done', data: { id: 'c', name: 'Bash', arguments: '{"a":"GONE args"}' } })
  worker.emit({ event: 'tool_result', data: { id: 'c', summary: 'KEPT result', is_error: false } })
  misbehave(flow.runtime).malformed(worker.id, '{"event":"thinking_delta","data":{"text":"GONE broken')
  tell(worker, 'the end')
  await live.until(saw(worker, 'the end'), 'the run')
  expect(live.frames.some(f => f.event === 'gap')).toBe(true)
  const { items } = stateOf(live.state, worker)
  expect(items.map(({ kind, withheld }) => [kind, withheld])).toMatchObject([
    ['thinking', [{ at: '/text', class: 'thinking', level: 'mask' }]],
    ['tool_call', [{ at: '/arguments', class: 'tool_args', level: 'mask' }]],
    ['user_message', undefined],
  ])
  expect(items[0]).toMatchObject({ text: '' })
  expect(items[1]).toMatchObject({ name: 'Bash', arguments: '{}', result: { summary: 'KEPT result' } })

  // The Runtime tells all of it again, in the log of its snapshot.
  await flow.restart()
  using fresh = await flow.open()
  await fresh.untilLive()
  expect(JSON.stringify(fresh.state)).toContain('KEPT result')
  const history = await fetch(`${flow.at()}/history`, { headers: bearer('admin') })
  const told = JSON.stringify([live.frames, fresh.frames, await history.json()])
  expect(told).toContain('KEPT')
  expect(told).not.toContain('GONE')
  expect(JSON.stringify(worker.snapshotData())).toContain('GONE')
  await eventually(() => bytesOf(flow.shoji.directory).includes('KEPT'), 'what is kept')
  expect(bytesOf(flow.shoji.directory)).not.toContain('GONE')
})
