import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { loadRecording, payloadOf, recordingNames } from '../../embedded-runtime/recording.ts'
import { asRecord, asText, parseJson } from '../../lib/json.ts'
import type { Told } from '../expand.ts'
import { flatten } from '../step.ts'
import { DOUBLED_LIMIT, type Doubled, doubledAfter, noteDoubled } from './doubled.ts'
import { createMac } from './utterance.ts'

const mac = createMac(Buffer.alloc(32, 1))
const RECORDINGS = fileURLToPath(new URL('../../../test/recordings', import.meta.url))

const said = (content: string): Told => ({
  event: 'user_message',
  data: { segments: [{ kind: 'text', content }] },
})
const run = (event: string, data: Record<string, unknown> = {}): Told => ({ event, data })
const inside = (told: Told): Told =>
  run('internal_worker', { worker: { session_id: 's' }, event: { event: told.event, data: told.data } })

const doubledOf = (events: readonly Told[], from: Doubled = []): boolean[] => {
  let kept = from
  return events.flatMap(({ event, data }) => {
    const flat = flatten(event, data)
    const noted = noteDoubled(kept, flat, mac)
    kept = noted.kept
    return flat.event === 'user_message' ? [noted.doubled] : []
  })
}

it('counts the first telling, not the second, and a third again', () => {
  expect(doubledOf([said('a'), said('b'), said('a'), said('b'), said('a'), said('a')])).toEqual(
    [0, 0, 1, 1, 0, 1].map(Boolean),
  )
})

it('takes what the log has trimmed for the same', () => {
  expect(doubledOf([said('  a\n'), said('a')])).toEqual([false, true])
})

it.each([
  run('run_end', { result: 'finished' }),
  run('status', { status: 'idle' }),
  run('status', { status: 'paused' }),
  run('rewind_applied', { entries: [] }),
  run('segment_rotated', { entry: { kind: 'segment_start', compacted_from: {} } }),
  run('snapshot', { entries: [], status: 'idle' }),
])('begins anew behind $event', between => {
  expect(doubledOf([said('a'), between, said('a'), said('a')])).toEqual([false, false, true])
})

it.each([run('status', { status: 'running' }), run('invoke_start'), run('segment_rotated', { entry: {} })])(
  'goes on behind $event',
  between => {
    expect(doubledOf([said('a'), between, said('a')])).toEqual([false, true])
  },
)

it('leaves internal workers alone, and their runs end nothing', () => {
  const events = [said('a'), inside(said('a')), inside(said('a')), inside(run('run_end')), said('a')]
  expect(doubledOf(events)).toEqual([false, false, false, true])
})

describe('a snapshot', () => {
  const input = (content: string) => ({ kind: 'user_input', segments: [{ kind: 'text', content }] })
  const entries = [input('a'), { kind: 'run_completed' }, input('b')]

  it('has told the inputs of the run that goes on once', () => {
    expect(doubledOf([said('b'), said('a')], doubledAfter({ status: 'running', entries }, mac))).toEqual([
      true,
      false,
    ])
  })

  it('has told nothing of a run that is over', () => {
    expect(doubledAfter({ status: 'idle', entries }, mac)).toEqual([])
    const errored = [input('a'), { kind: 'run_errored' }]
    expect(doubledAfter({ status: 'running', entries: errored }, mac)).toEqual([])
  })
})

it('keeps digests only, and not many', () => {
  let kept: Doubled = []
  for (let n = 0; n < 100; n++) kept = noteDoubled(kept, { ...said(`secret ${n}`), scope: '' }, mac).kept
  expect(kept).toHaveLength(DOUBLED_LIMIT)
  expect(JSON.stringify(kept)).not.toContain('secret')
  expect(JSON.parse(JSON.stringify(kept))).toEqual(kept)
})

/** Connections that did not hear of each input twice. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  'later-client-sends 1': 'its run was begun by a protocol method, which is told once',
  'later-ping-fence 6': 'the recorder left out what came between',
  'later-slow-reader 2': 'the reader stood still, and was cut off before its input was told',
}

it('shows every recorded input once', async () => {
  const exceptions: string[] = []
  let shown = 0
  for (const name of (await recordingNames(RECORDINGS)).filter(each => each.startsWith('later-'))) {
    const recording = await loadRecording(RECORDINGS, name)
    const asked = recording.http.filter(
      ({ method, path, request, status }) =>
        method === 'POST' && path.endsWith('/input') && status === 200 && request?.includes('"kind":"user"'),
    )
    for (const connection of recording.connections.filter(({ workerId }) => workerId !== '')) {
      const counted: string[] = []
      let told = 0
      let kept: Doubled = []
      for (const frame of connection.frames) {
        const payload = frame.fromRuntime && frame.kind === 'text' ? payloadOf(frame.text) : undefined
        if (payload === undefined) continue
        const { event, data } = asRecord(parseJson(payload))
        const noted = noteDoubled(kept, flatten(asText(event), asRecord(data)), mac)
        kept = noted.kept
        if (event !== 'user_message') continue
        told += 1
        if (!noted.doubled) counted.push(JSON.stringify(asRecord(data).segments))
      }
      const end = connection.close?.line ?? connection.frames.at(-1)?.line ?? 0
      const heard = asked.filter(({ line }) => line > connection.openLine && line < end)
      const where = `${name} ${connection.conn}`
      if (told !== 2 * counted.length || (connection.query === '' && counted.length !== heard.length))
        exceptions.push(where)
      expect(new Set(counted).size, where).toBe(counted.length)
      shown += counted.length
    }
  }
  expect(exceptions).toEqual(Object.keys(EXCEPTIONS))
  expect(shown).toBe(30)
})
