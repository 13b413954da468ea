import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { MINIMAL_CONFIG, useConfigFiles } from '../../test/_support/config.ts'
import { asSeq, type Entry } from '../journal/entry.ts'
import { openJournal, type SqliteJournal } from '../journal/sqlite/journal.ts'
import { journalCommands } from './journal.ts'
import { runCli } from './run.ts'

const { path, write } = useConfigFiles()

let journal: SqliteJournal
let config = ''
beforeEach(async () => {
  config = await write('shoji.yaml', MINIMAL_CONFIG)
  journal = await openJournal({ dataDir: path('data'), thread: false })
})
afterEach(() => journal.close())

/** Stores one entry a payload, of the worker `rt/w` unless another is named. */
const store = async (payloads: readonly string[], worker = 'w'): Promise<void> => {
  const stream = await journal.openStream({ source: 'runtime', runtime: 'rt', worker }, null)
  const first = Math.max(journal.firstSeq, journal.head + 1)
  const entries = payloads.map(
    (payload, i): Entry => ({
      seq: asSeq(first + i),
      stream: stream.id,
      incarnation: 0,
      time: 1000 + i,
      event: payload === '' ? 'shoji.gap' : 'text_delta',
      eventId: `e${first + i}`,
      payload,
      context: {},
      mark: false,
    }),
  )
  journal.append({ entries })
  await journal.durable(asSeq(first + entries.length - 1))
}

const run = async (words: readonly string[], signal = new AbortController().signal) => {
  const out: string[] = []
  const err: string[] = []
  const io = {
    stdout: { write: (text: string) => out.push(text) },
    stderr: { write: (text: string) => err.push(text) },
    env: {},
    signal,
  }
  const elsewhere = async (): Promise<number> => 7
  const code = await runCli(['journal', ...words, '--config', config], io, {
    version: '0',
    serve: elsewhere,
    demo: elsewhere,
    journal: journalCommands,
  })
  return { code, out: out.join(''), err: err.join('') }
}

describe('export', () => {
  it('writes the entries of one worker, a line each, with the payload as it arrived', async () => {
    await store(['{"event":"text_delta","data":{"n":12345678901234567890}}', '{\r\n  "event": "x"\n}', ''])
    await store(['{"event":"text_delta","data":{"text":"of another"}}'], 'other')
    const { code, out, err } = await run(['export', '--worker', 'rt/w'])
    expect([code, err]).toEqual([0, ''])
    expect(out.split('\n')).toEqual([
      '{"seq":1,"time":1000,"incarnation":0,"event":"text_delta","event_id":"e1","context":{},"payload":{"event":"text_delta","data":{"n":12345678901234567890}}}',
      '{"seq":2,"time":1001,"incarnation":0,"event":"text_delta","event_id":"e2","context":{},"payload":{   "event": "x" }}',
      '{"seq":3,"time":1002,"incarnation":0,"event":"shoji.gap","event_id":"e3","context":{},"payload":null}',
      '',
    ])
  })

  it('goes on over page after page, into a file that its owner alone may read', async () => {
    await store(Array.from({ length: 2500 }, (_, i) => `{"event":"text_delta","data":{"i":${i}}}`))
    const out = path('w.ndjson')
    expect(await run(['export', '--worker', 'rt/w', '--out', out])).toMatchObject({ code: 0, out: '' })
    const lines = (await readFile(out, 'utf8')).trimEnd().split('\n')
    expect(lines.map(line => JSON.parse(line).payload.data.i)).toEqual(
      Array.from({ length: 2500 }, (_, i) => i),
    )
    expect((await stat(out)).mode & 0o777).toBe(0o600)
  })

  it('leaves no file where it is interrupted', async () => {
    await store(['{}'])
    const out = path('w.ndjson')
    expect(await run(['export', '--worker', 'rt/w', '--out', out], AbortSignal.abort())).toMatchObject({
      code: 1,
      err: `shoji: ${out} was not written: interrupted\n`,
    })
    await expect(stat(out)).rejects.toThrow('ENOENT')
  })

  it('ends with 1 for a worker that the journal does not know', async () => {
    expect(await run(['export', '--worker', 'rt/none'])).toMatchObject({
      code: 1,
      out: '',
      err: 'shoji: the journal knows no worker rt/none\n',
    })
  })
})

describe('backup', () => {
  it('never replaces a file, least of all the journal', async () => {
    await store(['{}'])
    const live = path('data/journal.db')
    const before = (await stat(live)).ino
    expect(await run(['backup', '--out', live])).toMatchObject({
      code: 2,
      err: `shoji: ${live} exists already\n`,
    })
    expect((await stat(live)).ino).toBe(before)
    const other = await write('other.ndjson', 'mine')
    expect(await run(['export', '--worker', 'rt/w', '--out', other])).toMatchObject({ code: 2 })
    expect(await readFile(other, 'utf8')).toBe('mine')
  })

  it('says where it could not write', async () => {
    const { code, err } = await run(['backup', '--out', path('none/copy.db')])
    expect(code).toBe(1)
    expect(err).toMatch(/^shoji: .*copy\.db was not written: .*\n$/)
  })
})

describe('stats and verify', () => {
  it('count what is there', async () => {
    await store(['{}', '{}'])
    await store(['{}'], 'other')
    const { code, out } = await run(['stats'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ entries: 3, streams: 2, head: 3, quarantined: 0 })
    expect(await run(['verify'])).toEqual({ code: 0, out: 'sound: 3 entries of 2 streams\n', err: '' })
  })

  it('verify names what is wrong and ends with 1', async () => {
    await store(Array.from({ length: 2000 }, (_, i) => `{"event":"text_delta","data":{"i":${i}}}`))
    await journal.close()
    const file = join(path('data'), 'journal.db')
    const bytes = await readFile(file)
    await writeFile(file, bytes.fill(0x5a, Math.floor(bytes.length / 2), Math.floor(bytes.length / 2) + 8192))
    const { code, err } = await run(['verify'])
    expect(code).toBe(1)
    expect(err).toMatch(/^shoji: /)
  })

  it('end with 1 and a code where there is no journal', async () => {
    config = await write('elsewhere.yaml', `${MINIMAL_CONFIG}data_dir: none\n`)
    for (const which of ['stats', 'verify']) {
      const { code, err } = await run([which])
      expect(code).toBe(1)
      expect(err).toMatch(/^shoji: data_dir_unusable: /)
    }
  })
})
