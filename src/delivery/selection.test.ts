import { CLASSES } from '@shoji/web-contract'
import { expect, it } from 'vitest'
import type { CompiledPolicy, View } from '../projection/view.ts'
import { createAudience, type KnownWorker, type Selection, viewsOf } from './selection.ts'

const everything: View = {
  observe: true,
  levels: Object.fromEntries(CLASSES.map(c => [c, 'show'])) as View['levels'],
  commands: [],
  hash: 'everything',
}
const nothing: View = { ...everything, observe: false }
const policy: CompiledPolicy = {
  hash: 'p',
  view: (_, { worker }) => (worker.startsWith('hidden') ? nothing : everything),
  subjectHash: subject => subject.user,
}
const key = Buffer.alloc(32)

const audience = (selection: Selection, user = 'u') =>
  createAudience(key, { selection, policy, subject: { user, roles: [], groups: [] }, history: 100 })

const known = (...workers: string[]): KnownWorker[] =>
  workers.map(worker => ({ source: 'runtime', runtime: 'rt', worker, profile: null, stream: undefined }))

const told = (selection: Selection, workers: readonly KnownWorker[]): string =>
  JSON.stringify(viewsOf(audience(selection), workers))

it('tells the same of the same workers in whatever order they are known', () => {
  const runtime: Selection = { kind: 'runtime', runtime: 'rt' }
  expect(told(runtime, known('c', 'a', 'b'))).toBe(told(runtime, known('a', 'b', 'c')))
})

it('tells of a runtime the same whether workers are hidden or not there', () => {
  const runtime: Selection = { kind: 'runtime', runtime: 'rt' }
  expect(told(runtime, known('b', 'hidden', 'a', 'hidden2'))).toBe(told(runtime, known('a', 'b')))
})

it('tells of a hidden name in a selection what it tells of an unknown one, in the order of the selection', () => {
  const selection: Selection = {
    kind: 'workers',
    workers: ['b', 'hidden', 'a'].map(worker => ({ runtime: 'rt', worker })),
  }
  expect(told(selection, known('a', 'hidden', 'b'))).toBe(told(selection, known('a', 'b')))
  expect(viewsOf(audience(selection), known('a', 'b')).map(view => view.worker)).toEqual(['b', 'hidden', 'a'])
})

it('ties cursors to the selection as asked and to what the subject may see', () => {
  const one: Selection = { kind: 'worker', runtime: 'rt', worker: 'a' }
  const same: Selection = { kind: 'workers', workers: [{ runtime: 'rt', worker: 'a' }] }
  expect(audience(one).tag).toEqual(audience(one).tag)
  expect(audience(one).tag).not.toEqual(audience(same).tag)
  expect(audience(one).tag).not.toEqual(audience(one, 'another').tag)
})
