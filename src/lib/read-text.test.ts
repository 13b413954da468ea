import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { readFailure, readText } from './read-text.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shoji-read-'))
})
afterEach(() => rm(directory, { recursive: true }))

const failure = async (path: string, maxBytes: number): Promise<string> => {
  try {
    await readText(path, maxBytes)
  } catch (error) {
    return readFailure(error)
  }
  return 'read'
}

it('reads a file that fills the bound, and refuses one byte more', async () => {
  const path = join(directory, 'f')
  await writeFile(path, 'é12')
  expect(await readText(path, 4)).toBe('é12')
  expect(await failure(path, 3)).toBe('larger than 3 bytes')
})

it('stops reading what has no end', async () => {
  expect(await failure('/dev/zero', 1_000)).toBe('larger than 1000 bytes')
})

it('says why a file cannot be read', async () => {
  const path = join(directory, 'f')
  await writeFile(path, Buffer.from([0x61, 0xff]))
  expect(await failure(path, 10)).toBe('not UTF-8 text')
  expect(await failure(join(directory, 'none'), 10)).toBe('no such file')
  expect(await failure(directory, 10)).toBe('is a directory')
})
