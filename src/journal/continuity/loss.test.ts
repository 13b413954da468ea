import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { loadRecording, payloadOf, recordingNames } from '../../embedded-runtime/recording.ts'
import { asRecord, asText, parseJson } from '../../lib/json.ts'
import { asSeq } from '../entry.ts'
import { expandList, type Told } from '../expand.ts'
import { emptyOpenState, LIMITS, type OpenState } from '../open-state.ts'
import { flatten, step } from '../step.ts'
import { noteLoss, openLoss } from './loss.ts'
import { inWindow, offer, openStitch, repeatsResult } from './stitch.ts'

const RECORDINGS = fileURLToPath(new URL('../../../test/recordings', import.meta.url))

/** Folds events as ingest does, and collects what each is a sign of. */
const watch = (state: OpenState) => {
  let loss = openLoss(state)
  let seq = 2
  const signs: string[] = []
  return {
    signs,
    get loss() {
      return loss
    },
    take({ event, data }: Told, excused = false) {
      const flat = flatten(event, data)
      if (repeatsResult(state, flat)) return
      const context = step(state, event, data, { seq: asSeq(seq++), index: 0 })
      if (context.replaces) loss = openLoss(state)
      else signs.push(...noteLoss(loss, flat, context, excused).map(sign => `${sign} ${flat.event}`))
    },
  }
}

const told = (event: string, data: Record<string, unknown> = {}): Told => ({ event, data })
const signsOf = (...events: Told[]): string[] => {
  const watched = watch(emptyOpenState())
  for (const event of events) watched.take(event)
  return watched.signs
}

const text = (words: string) => told('text_delta', { text: words })
const call = [
  told('tool_call_start', { id: 'c', name: 'Bash' }),
  told('tool_call_done', { id: 'c', name: 'Bash' }),
]

it.each<[string, string[], Told[]]>([
  [
    'a done that is not the sum',
    ['done_differs text_done'],
    [text('one '), told('text_done', { text: 'one two' })],
  ],
  ['a done of which no delta came', ['done_differs text_done'], [told('text_done', { text: 'one' })]],
  ['a done of the same letters', ['done_differs text_done'], [text('ab'), told('text_done', { text: 'ba' })]],
  [
    'thinking without its start',
    ['delta_without_start thinking_delta'],
    [told('thinking_delta', { text: 'x' })],
  ],
  [
    'arguments of an unknown call',
    ['delta_without_start tool_call_args_delta'],
    [
      told('tool_call_args_delta', { id: 'c', json: '{' }),
      told('tool_call_args_delta', { id: 'c', json: '}' }),
    ],
  ],
  ['a result of an unknown call', ['result_without_call tool_result'], [told('tool_result', { id: 'c' })]],
  [
    'a call without a result',
    ['call_without_result turn_start'],
    [...call, told('turn_end'), told('turn_start')],
  ],
  [
    'a call without a result',
    ['call_without_result run_end'],
    [...call, told('run_end', { result: 'finished' })],
  ],
  [
    'a block without an end',
    ['block_without_end turn_end'],
    [text('one'), told('llm_call_end'), told('turn_end')],
  ],
  [
    'thinking without an end',
    ['block_without_end turn_end'],
    [told('thinking_start'), told('thinking_start'), told('thinking_done', { text: '' }), told('turn_end')],
  ],
])('knows %s', (_, signs, events) => {
  expect(signsOf(...events)).toEqual(signs)
})

it.each<[string, Told[]]>([
  [
    'an ordinary block',
    [text('a'), text(''), text('b'), told('text_done', { text: 'ab' }), told('turn_end')],
  ],
  ['hidden thinking', [told('thinking_start'), told('thinking_done', { text: '' }), told('turn_end')]],
  [
    'a cut stream',
    [text('a'), told('llm_call_end'), told('llm_continuation'), text('b'), told('text_done', { text: 'b' })],
  ],
  [
    'a cancelled block',
    [text('a'), told('error', { message: 'Cancelled' }), told('status', { status: 'idle' })],
  ],
  ['a paused call', [...call, told('run_end', { result: 'paused' })]],
  ['a call that was dropped before its done', [call[0]!, told('llm_continuation'), told('turn_start')]],
])('sees no sign in %s', (_, events) => {
  expect(signsOf(...events, told('run_end', { result: 'finished' }))).toEqual([])
})

it('keeps scopes apart', () => {
  const inside = (event: Told): Told =>
    told('internal_worker', { worker: { session_id: 's' }, event: { event: event.event, data: event.data } })
  const events = [text('a'), inside(text('b')), told('text_done', { text: 'a' })]
  expect(signsOf(...events, inside(told('text_done', { text: 'c' })))).toEqual(['done_differs text_done'])
})

it('does not judge a block that was open before, nor one that came within the window', () => {
  const data = { entries: [], status: 'running', in_flight: { blocks: [{ kind: 'text', text: 'one ' }] } }
  const { state } = expandList('snapshot', data, asSeq(1), { status: null })
  const watched = watch(state)
  watched.take(text('three'))
  watched.take(told('text_done', { text: 'one two three' }))
  watched.take(text('in the '), true)
  watched.take(text('window'))
  watched.take(told('text_done', { text: 'half in the window' }))
  expect(watched.signs).toEqual([])
  watched.take(text('after'))
  watched.take(told('text_done', { text: 'after it' }))
  expect(watched.signs).toEqual(['done_differs text_done'])
})

it('keeps a bounded number of scopes', () => {
  const watched = watch(emptyOpenState())
  for (let n = 0; n < 200; n++)
    watched.take(told('internal_worker', { worker: { session_id: `s${n}` }, event: text('a') }))
  expect(watched.loss.scopes.size).toBe(LIMITS.scopes)
})

/** Connections asked for with a cursor: what is recorded begins within a block, or events were left out. */
const BEGUN_IN_A_BLOCK = [
  'evicted-cursor 3',
  'malformed-cursor 8',
  'ping-fence 2',
  'ping-fence 4',
  'reconnect-good-cursor 4',
  'restart-no-store 5',
  'restart-no-store 6',
]

it('sees signs in the recordings that lost events, and in no other', async () => {
  const found: Record<string, Record<string, number>> = {}
  const begunInABlock: string[] = []
  for (const name of await recordingNames(RECORDINGS)) {
    for (const connection of (await loadRecording(RECORDINGS, name)).connections) {
      const [snapshot, ...events] = connection.frames.flatMap(frame => {
        const payload = frame.fromRuntime && frame.kind === 'text' ? payloadOf(frame.text) : undefined
        if (payload === undefined) return []
        const { event, data } = asRecord(parseJson(payload))
        return [{ event: asText(event), data: asRecord(data), atMs: frame.atMs }]
      })
      if (snapshot?.event !== 'snapshot') continue
      const { list, state } = expandList('snapshot', snapshot.data, asSeq(1), { status: null })
      const stitch = openStitch(list)
      const watched = watch(state)
      for (const event of events) {
        const now = stitch === null ? [{ event, overlap: false }] : offer(stitch, event, event.atMs)
        for (const each of now) {
          const { scope } = flatten(each.event.event, each.event.data)
          if (!each.overlap) watched.take(each.event, stitch !== null && inWindow(stitch, scope))
        }
      }
      const where = `${name} ${connection.conn}`
      if (watched.signs.length === 0) continue
      if (connection.query !== '') begunInABlock.push(where)
      else
        for (const sign of watched.signs)
          found[where] = { ...found[where], [sign]: (found[where]?.[sign] ?? 0) + 1 }
    }
  }
  expect(begunInABlock).toEqual(BEGUN_IN_A_BLOCK)
  expect(found).toEqual({
    'burst-lost-blocks 1': {
      'delta_without_start thinking_delta': 1,
      'delta_without_start tool_call_args_delta': 2,
      'block_without_end turn_end': 1,
    },
    'burst-lost-events 1': { 'done_differs text_done': 1 },
    'later-snapshot-ahead 398': { 'call_without_result turn_start': 1 },
  })
})
