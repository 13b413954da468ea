/** The journal's commands as processes of their own, beside a server that goes on writing. */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { buildServer } from '../_support/build.ts'
import { delta, type Flow, saw, startFlow, tell } from '../_support/flow.ts'

let main = ''
beforeAll(async () => {
  main = await buildServer()
})

interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

const shoji = (directory: string, ...words: readonly string[]): Promise<Ended> =>
  new Promise(resolve => {
    const child = execFile(
      process.execPath,
      [main, 'journal', ...words, '--config', join(directory, 'shoji.yaml')],
      { maxBuffer: 64 * 1024 * 1024 },
      (_, out, err) => resolve({ code: child.exitCode ?? -1, out, err }),
    )
  })

/** Has the worker speak, a delta a turn, until the work is done. */
const speakingDuring = async <T>({ worker }: Flow, work: Promise<T>): Promise<T> => {
  let ended = false
  const ending = work.finally(() => {
    ended = true
  })
  for (let i = 0; !ended; i++) {
    delta(worker, `word ${i} `)
    await new Promise(resolve => setImmediate(resolve))
  }
  return ending
}

it('stats, verify and export read beside a running server', async () => {
  await using flow = await startFlow()
  tell(flow.worker, 'said once')
  using viewer = await flow.open()
  await viewer.until(saw(flow.worker, 'said once'))
  const { directory } = flow.shoji
  const stats = await shoji(directory, 'stats')
  expect([stats.code, stats.err]).toEqual([0, ''])
  expect(JSON.parse(stats.out)).toMatchObject({ streams: 1, quarantined: 0 })
  expect(await shoji(directory, 'verify')).toMatchObject({ code: 0, err: '' })
  const { code, out } = await shoji(directory, 'export', '--worker', `rt/${flow.worker.id}`)
  expect(code).toBe(0)
  const told = out
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  expect(told.filter(({ event }) => event === 'user_message').map(({ payload }) => payload)).toMatchObject([
    { event: 'user_message', data: { segments: [{ content: 'said once' }] } },
  ])
  expect(told.map(({ seq }) => seq)).toContain(JSON.parse(stats.out).head)
})

it('a backup taken while entries are committed is sound, private, and a prefix of the journal', async () => {
  await using flow = await startFlow()
  using viewer = await flow.open()
  await viewer.untilLive()
  const { directory } = flow.shoji
  const restored = join(directory, 'restored')
  mkdirSync(join(restored, 'data'), { recursive: true })
  const copy = join(restored, 'data', 'journal.db')
  expect(await speakingDuring(flow, shoji(directory, 'backup', '--out', copy))).toMatchObject({
    code: 0,
    out: '',
  })
  expect((await stat(copy)).mode & 0o777).toBe(0o600)
  for (const file of ['shoji.yaml', 'policy.yaml']) cpSync(join(directory, file), join(restored, file))
  expect(await shoji(restored, 'verify')).toMatchObject({ code: 0, err: '' })
  const worker = `rt/${flow.worker.id}`
  const kept = await shoji(restored, 'export', '--worker', worker)
  const whole = await shoji(directory, 'export', '--worker', worker)
  expect(kept.out.split('\n').length).toBeGreaterThan(10)
  expect(whole.out.length).toBeGreaterThan(kept.out.length)
  expect(whole.out.startsWith(kept.out)).toBe(true)
})
