import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { loadPolicyFile } from './file.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shoji-policy-'))
})
afterEach(() => rm(directory, { recursive: true }))

const write = async (content: string | Uint8Array): Promise<string> => {
  const file = join(directory, 'policy.yaml')
  await writeFile(file, content)
  return file
}

it('a policy file is read and compiled', async () => {
  const { policy } = await loadPolicyFile(
    await write('version: 1\nstatements: [{ id: a, who: "*", on: "*", grant: { observe: true } }]'),
  )
  const resource = { source: 'runtime', runtime: 'r', worker: 'w', profile: null } as const
  expect(policy.view({ user: 'u', roles: [], groups: [] }, resource).observe).toBe(true)
})

it.each([
  ['torn in mid-write', 'version: 1\nsubjects:\n  a: { any: [ { role: ', '3:'],
  ['empty', '', '1:1 '],
  ['of another kind', '#!/bin/sh\necho\n', '2:1 '],
  ['not text', Uint8Array.of(0x76, 0xff), '1:1 '],
  ['larger than 1 MiB', `version: 1 # ${'x'.repeat(2 ** 20)}`, '1:1 '],
])('a policy file that is %s is policy_invalid, with its place', async (_name, content, place) => {
  const file = await write(content)
  await expect(loadPolicyFile(file)).rejects.toMatchObject({ code: 'policy_invalid', file })
  await expect(loadPolicyFile(file)).rejects.toThrow(`${file}:${place}`)
})

it('a policy file that does not exist is policy_invalid and names itself', async () => {
  const file = join(directory, 'none.yaml')
  await expect(loadPolicyFile(file)).rejects.toMatchObject({
    code: 'policy_invalid',
    message: `${file}:1:1 document: no such file`,
  })
})
