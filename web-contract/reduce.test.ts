import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EnvelopeData, Frame } from './frames.ts'
import { emptyClientState, reduce, workerKey } from './reduce.ts'
import { emptyWorkerState, reduceWorker } from './reduce-worker.ts'
import type { ClientState, WorkerState } from './state.ts'

const at = { runtime: 'rt', worker: 'w' }
const key = workerKey(at.runtime, at.worker)

let clock = 0
const envelope = (event: string, data: object = {}, more: Partial<EnvelopeData> = {}): EnvelopeData => ({
  ...at,
  time: ++clock,
  event,
  data: { ...data },
  ...more,
})
const fold = (...envelopes: EnvelopeData[]): WorkerState => envelopes.reduce(reduceWorker, emptyWorkerState())
const frames = (...list: Frame[]): ClientState => list.reduce(reduce, emptyClientState())
const begins = (item: string, block?: string): Partial<EnvelopeData> => ({
  item,
  begins: true,
  ...(block !== undefined && { block }),
})
const view = { ...at, classes: {}, commands: [] }
const hello = (outcome: 'fresh' | 'resumed' | 'reset', views: ClientState['views'] = [view]): Frame => ({
  event: 'hello',
  data: { protocol: 1, outcome, heartbeat_ms: 15_000, policy: 'p', views },
})
const snapshot = (state: WorkerState, earlier: string | null = null): Frame => ({
  event: 'snapshot',
  data: { ...at, state, earlier },
})
const live = (id: string, data: EnvelopeData): Frame => ({ event: 'envelope', data, id })

describe('one worker', () => {
  it('keeps a user message with its segments', () => {
    const segments = [{ kind: 'text', content: 'hi' }]
    expect(fold(envelope('user_message', { segments }, begins('a'))).items).toMatchObject([
      { id: 'a', kind: 'user_message', segments },
    ])
  })

  it('keeps a user message whose segments were withheld as an empty one with its receipt', () => {
    const withheld = [{ at: '/data/segments', class: 'user_input' as const, level: 'mask' as const }]
    expect(fold(envelope('user_message', {}, { ...begins('a'), withheld })).items).toMatchObject([
      {
        kind: 'user_message',
        segments: [],
        withheld: [{ at: '/segments', class: 'user_input', level: 'mask' }],
      },
    ])
  })

  it('joins deltas and settles on the finished text', () => {
    const open = fold(
      envelope('text_delta', { text: 'Hel' }, begins('a', 'b')),
      envelope('text_delta', { text: 'lo' }, { item: 'a', block: 'b' }),
    )
    expect(open.items).toMatchObject([{ id: 'a', kind: 'text', text: 'Hello' }])
    expect(open.open.blocks).toEqual([{ block: 'b', item: 'a', kind: 'text' }])
    const done = reduceWorker(open, envelope('text_done', { text: 'Hello!' }, { item: 'a', block: 'b' }))
    expect(done.items).toMatchObject([{ text: 'Hello!' }])
    expect(done.open.blocks).toEqual([])
  })

  it('opens an empty thinking block at its start and fills it', () => {
    const state = fold(
      envelope('thinking_start', {}, begins('a', 'b')),
      envelope('thinking_delta', { text: 'hm' }, { item: 'a', block: 'b' }),
    )
    expect(state.items).toMatchObject([{ kind: 'thinking', text: 'hm' }])
    expect(state.open.blocks).toMatchObject([{ kind: 'thinking' }])
  })

  it('takes a delta before its start without losing or throwing anything', () => {
    const state = fold(
      envelope('thinking_delta', { text: 'early' }, begins('a', 'b')),
      envelope('thinking_start', {}, { item: 'a', block: 'b' }),
      envelope('thinking_delta', { text: ' late' }, { item: 'a', block: 'b' }),
    )
    expect(state.items).toMatchObject([{ kind: 'thinking', text: 'early late' }])
    expect(state.open.blocks).toHaveLength(1)
  })

  it('goes on after a finished text of the same block as the stream says', () => {
    const on = { item: 'a', block: 'b' }
    const state = fold(
      envelope('text_done', { text: 'a' }, begins('a', 'b')),
      envelope('text_delta', { text: 'b' }, on),
      envelope('text_done', { text: 'ab' }, on),
      envelope('text_delta', { text: 'c' }, on),
    )
    expect(state.items).toMatchObject([{ text: 'abc' }])
  })

  it('follows a tool call from its start to its result', () => {
    const started = fold(envelope('tool_call_start', { id: 'c1', name: 'Bash' }, begins('a', 'b')))
    expect(started.open.calls).toEqual([{ block: 'b', item: 'a', call: 'c1', name: 'Bash' }])
    const done = reduceWorker(
      started,
      envelope('tool_call_done', { id: 'c1', name: 'Bash', arguments: '{}' }, { item: 'a', block: 'b' }),
    )
    expect(done.open.calls).toHaveLength(1)
    const ended = reduceWorker(
      done,
      envelope(
        'tool_result',
        { id: 'c1', summary: 'ok', output: 'out', is_error: false },
        { item: 'a', tails: [{ block: 'b', text: '' }] },
      ),
    )
    expect(ended.items).toMatchObject([
      {
        kind: 'tool_call',
        call: 'c1',
        name: 'Bash',
        arguments: '{}',
        result: { summary: 'ok', output: 'out', is_error: false },
      },
    ])
    expect(ended.open.calls).toEqual([])
  })

  it('keeps parallel calls in the order in which they began', () => {
    const state = fold(
      envelope('tool_call_start', { id: 'c1' }, begins('a', 'b1')),
      envelope('tool_call_start', { id: 'c2' }, begins('b', 'b2')),
      envelope('tool_call_done', { id: 'c1', name: 'Read' }, { item: 'a', block: 'b1' }),
    )
    expect(state.open.calls).toEqual([
      { block: 'b1', item: 'a', call: 'c1', name: 'Read' },
      { block: 'b2', item: 'b', call: 'c2' },
    ])
  })

  it('makes an item of a result whose call it never saw', () => {
    const state = fold(envelope('tool_result', { id: 'c', summary: 's' }, begins('a')))
    expect(state.items).toMatchObject([{ kind: 'tool_call', call: 'c', result: { summary: 's' } }])
    expect(state.open.calls).toEqual([])
  })

  it('joins both streams of a command, which may go on after the result of its call', () => {
    const output = (stream: string, content: string): object => ({
      event: { kind: 'output', stream, content },
    })
    const state = fold(
      envelope('tool_call_start', { id: 'c' }, begins('a', 'b')),
      envelope('command', { event: { kind: 'started', command_id: 'm' } }, { item: 'a' }),
      envelope('command', output('stdout', 'o1'), { item: 'a', block: 'so' }),
      envelope('tool_result', { id: 'c' }, { item: 'a', tails: [{ block: 'b', text: '' }] }),
      envelope('command', output('stderr', 'e'), { item: 'a', block: 'se' }),
      envelope('command', output('stdout', 'o2'), { item: 'a', block: 'so' }),
    )
    expect(state.items).toMatchObject([{ command: { stdout: 'o1o2', stderr: 'e' } }])
    expect(state.open.blocks.map(b => b.kind)).toEqual(['stdout', 'stderr'])
    const tails = [
      { block: 'so', text: '.' },
      { block: 'se', text: '' },
    ]
    const terminal = { event: { kind: 'terminal', status: 'exited', exit_code: 0 } }
    const ended = reduceWorker(state, envelope('command', terminal, { item: 'a', tails }))
    expect(ended.items).toMatchObject([
      { command: { stdout: 'o1o2.', stderr: 'e', status: 'exited', exit_code: 0 } },
    ])
    expect(ended.open.blocks).toEqual([])
  })

  it('appends a tail and then closes the block, before the event itself', () => {
    const state = fold(
      envelope('text_delta', { text: 'a' }, begins('a', 'b')),
      envelope('error', { code: 'x', message: 'm' }, { ...begins('e'), tails: [{ block: 'b', text: 'z' }] }),
      envelope('text_delta', { text: 'new' }, begins('a2', 'b2')),
    )
    expect(state.items).toMatchObject([{ text: 'az' }, { kind: 'error', code: 'x' }, { text: 'new' }])
    expect(state.open.blocks).toMatchObject([{ block: 'b2' }])
  })

  it('ends what is shown by an event that is not shown', () => {
    const state = fold(
      envelope('text_delta', { text: 'a' }, begins('a', 'b')),
      envelope('block_end', {}, { tails: [{ block: 'b', text: 'z' }] }),
    )
    expect(state.items).toMatchObject([{ text: 'az' }])
    expect(state.items).toHaveLength(1)
    expect(state.open.blocks).toEqual([])
  })

  it('keeps status, usage and greeting, and stops at shutdown', () => {
    const state = fold(
      envelope('greeting', { worker_name: 'n' }),
      envelope('status', { status: 'running' }),
      envelope('usage', { input_tokens: 3 }),
    )
    expect(state).toMatchObject({
      status: 'running',
      usage: { input_tokens: 3 },
      greeting: { worker_name: 'n' },
    })
    expect(reduceWorker(state, envelope('shutdown')).status).toBe('stopped')
    expect(reduceWorker(state, envelope('status', {})).status).toBeNull()
  })

  it.each(['alert', 'llm_retry', 'llm_continuation', 'compact_failed', 'memory_worker', 'run_end'])(
    'keeps %s as a notice where it has an item, and as nothing where it has none',
    event => {
      const withheld = [{ at: '/data/error', class: 'diagnostics' as const, level: 'mask' as const }]
      expect(fold(envelope(event, { error: '' }, { ...begins('a'), withheld })).items).toMatchObject([
        { kind: 'notice', event, data: { error: '' }, withheld: [{ at: '/data/error' }] },
      ])
      expect(fold(envelope(event, {})).items).toEqual([])
    },
  )

  it('keeps system items and the system prompt', () => {
    const state = fold(
      envelope('system_prompt', { text: 'You are' }, begins('a')),
      envelope('system_item', { item: { kind: 'notification', body: 'b' } }, begins('b')),
    )
    expect(state.items).toMatchObject([
      { kind: 'system_prompt', text: 'You are' },
      { kind: 'system', item: { kind: 'notification', body: 'b' } },
    ])
  })

  it.each(['from_the_future', 'beat', 'hello', '__proto__', 'constructor', ''])(
    'keeps the unknown event "%s" as an item of kind unsupported',
    event => {
      expect(fold(envelope(event, { a: 1 }, begins('a'))).items).toMatchObject([
        { kind: 'unsupported', event, data: { a: 1 } },
      ])
    },
  )

  it('never lets an unknown event change an item of another kind', () => {
    const state = fold(
      envelope('user_message', { segments: [] }, begins('a')),
      envelope('from_the_future', { id: 'x', kind: 'text' }, { item: 'a' }),
    )
    expect(state.items).toEqual([{ id: 'a', kind: 'user_message', time: expect.any(Number), segments: [] }])
  })

  it('leaves an item alone that lies before the window', () => {
    const state = fold(
      envelope('text_delta', { text: 'x' }, { item: 'old', block: 'ob' }),
      envelope('tool_result', { id: 'c' }, { item: 'older', tails: [{ block: 'oc', text: '' }] }),
      envelope('block_end', {}, { tails: [{ block: 'ob', text: 'tail' }] }),
    )
    expect(state.items).toEqual([])
    expect(state.open).toEqual({ blocks: [], calls: [] })
  })

  it('gives an item the time of its newest frame', () => {
    const one = fold(envelope('text_delta', { text: 'x' }, begins('a', 'b')))
    const tail = reduceWorker(
      one,
      envelope('block_end', {}, { tails: [{ block: 'b', text: 'y' }], time: 9e9 }),
    )
    expect(tail.items[0]?.time).toBe(9e9)
  })

  it('is total: no envelope makes it throw', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record(
            {
              event: fc.oneof(
                fc.constantFrom('command', 'internal_worker', 'tool_result', 'status'),
                fc.string(),
              ),
              data: fc.anything(),
              item: fc.constantFrom('a', 'b'),
              begins: fc.constant(true),
              block: fc.constantFrom('b1', 'b2'),
            },
            { requiredKeys: ['event'] },
          ),
        ),
        list => {
          const state = list
            .map(e => ({ ...at, time: 1, ...e }) as EnvelopeData)
            .reduce(reduceWorker, emptyWorkerState())
          expect(state.items.length).toBeLessThanOrEqual(2)
        },
      ),
    )
  })

  it('leaves the state it was given as it was', () => {
    const before = fold(envelope('text_delta', { text: 'x' }, begins('a', 'b')))
    const copy = structuredClone(before)
    reduceWorker(before, envelope('text_done', { text: 'xyz' }, { item: 'a', block: 'b' }))
    expect(before).toEqual(copy)
  })
})

describe('internal workers', () => {
  const inner = (worker: object, event: string, data: object): object => ({ worker, event: { event, data } })

  it('marks the items of a worker nested two deep with its session and knows both workers', () => {
    const outer = { session_id: 's1', name: 'one', kind: 'task' }
    const deep = { session_id: 's2', name: 'two', parent_session_id: 's1', kind: 'task' }
    const nested = (event: string, data: object): object =>
      inner(outer, 'internal_worker', inner(deep, event, data))
    const withheld = [
      {
        at: '/data/event/data/event/data/text',
        class: 'assistant_text' as const,
        level: 'truncate' as const,
      },
    ]
    const state = fold(
      envelope('internal_worker', nested('text_delta', { text: 'a' }), { ...begins('a', 'b'), withheld }),
      envelope('internal_worker', nested('status', { status: 'running' })),
      envelope('internal_worker', inner(outer, 'usage', { input_tokens: 1 })),
    )
    expect(state.items).toMatchObject([
      { id: 'a', kind: 'text', text: 'a', internal: 's2', withheld: [{ at: '/text' }] },
    ])
    expect(state.open.blocks).toEqual([{ block: 'b', item: 'a', kind: 'text', internal: 's2' }])
    expect(state.internal_workers).toEqual([outer, { ...deep, status: 'running' }])
    expect(state.status).toBeNull()
    expect(state.usage).toBeUndefined()
    const gone = reduceWorker(state, envelope('internal_worker_removed', { worker: deep }))
    expect(gone.internal_workers).toEqual([outer])
  })

  it('keeps at most 64 of them, the newest', () => {
    const many = Array.from({ length: 70 }, (_, i) =>
      envelope('internal_worker', inner({ session_id: `s${i}` }, 'status', { status: 'idle' })),
    )
    const state = fold(...many)
    expect(state.internal_workers).toHaveLength(64)
    expect(state.internal_workers.at(-1)?.session_id).toBe('s69')
  })
})

describe('text', () => {
  const halves = fc.array(
    fc.oneof(fc.constantFrom('\ud83d', '\ude00', '\r\n', '\0', '\u2028', 'data: '), fc.string()),
  )

  it('joins whatever the deltas hold verbatim, halves of surrogate pairs and repetitions included', () => {
    fc.assert(
      fc.property(halves, texts => {
        const deltas = texts.map((text, i) =>
          envelope('text_delta', { text }, i === 0 ? begins('a', 'b') : { item: 'a', block: 'b' }),
        )
        expect(
          fold(...deltas)
            .items.map(i => (i.kind === 'text' ? i.text : ''))
            .join(''),
        ).toBe(texts.join(''))
      }),
      { examples: [[['aa', 'aa']], [['B', 'Bonus']], [['\ud83d', '\ude00']]] },
    )
  })

  it('ends alike however the same text was split into deltas', () => {
    fc.assert(
      fc.property(fc.array(fc.string(), { minLength: 1 }), fc.nat(), (texts, where) => {
        const cut = where % texts.length
        const delta = (text: string, first: boolean): EnvelopeData => ({
          ...at,
          time: 7,
          event: 'text_delta',
          data: { text },
          ...(first ? begins('a', 'b') : { item: 'a', block: 'b' }),
        })
        const split = texts.map((text, i) => delta(text, i === 0))
        const joined = [
          delta(texts.slice(0, cut + 1).join(''), true),
          delta(texts.slice(cut + 1).join(''), false),
        ]
        expect(fold(...joined)).toEqual(fold(...split))
      }),
    )
  })

  const cut = (path: string, chars: number): Partial<EnvelopeData> => ({
    cut: [{ at: path, chars, rest: '/rest' }],
  })

  it('counts text after a cut and does not append it', () => {
    const state = fold(
      envelope('text_delta', { text: '12' }, begins('a', 'b')),
      envelope('text_delta', { text: '345' }, { item: 'a', block: 'b', ...cut('/data/text', 10) }),
      envelope('text_delta', { text: 'zz' }, { item: 'a', block: 'b' }),
    )
    expect(state.items).toMatchObject([{ text: '12345', cut: [{ at: '/text', chars: 14, rest: '/rest' }] }])
  })

  it('never shortens a known text by a finished one that was cut', () => {
    const state = fold(
      envelope('text_delta', { text: 'whole text' }, begins('a', 'b')),
      envelope('text_done', { text: 'whole' }, { item: 'a', block: 'b', ...cut('/data/text', 10) }),
    )
    expect(state.items).toMatchObject([
      { text: 'whole text', cut: [{ at: '/text', chars: 10, rest: '/rest' }] },
    ])
  })

  it('forgets a cut once the whole text is there', () => {
    const state = fold(
      envelope('text_delta', { text: 'who' }, { ...begins('a', 'b'), ...cut('/data/text', 5) }),
      envelope('text_done', { text: 'whole' }, { item: 'a', block: 'b' }),
    )
    expect(state.items).toMatchObject([{ text: 'whole' }])
    expect(state.items[0]).not.toHaveProperty('cut')
  })

  it('places the receipts of results and of command output at the field they end up in', () => {
    const state = fold(
      envelope('tool_result', { id: 'c', output: 'o' }, { ...begins('a'), ...cut('/data/output', 9) }),
      envelope(
        'command',
        { event: { kind: 'output', stream: 'stderr', content: 'e' } },
        { item: 'a', block: 'se', ...cut('/data/event/content', 8) },
      ),
      envelope(
        'command',
        { event: { kind: 'output', stream: 'stderr', content: 'more' } },
        { item: 'a', block: 'se' },
      ),
    )
    expect(state.items).toMatchObject([
      {
        result: { output: 'o' },
        command: { stderr: 'e' },
        cut: [
          { at: '/result/output', chars: 9 },
          { at: '/command/stderr', chars: 12 },
        ],
      },
    ])
  })

  it('holds no more than a megabyte of one text, cut at the same place however it was split', () => {
    const mega = 1024 * 1024
    const big = 'x'.repeat(mega - 1)
    const rest = { item: 'a', block: 'b', time: 1 }
    const split = fold(
      envelope('text_delta', { text: big }, { ...begins('a', 'b'), time: 1 }),
      envelope('text_delta', { text: '\ud83d' }, rest),
      envelope('text_delta', { text: '\ude00!' }, rest),
      envelope('text_delta', { text: 'later' }, rest),
    )
    const joined = fold(
      envelope('text_delta', { text: `${big}\ud83d\ude00!later` }, { ...begins('a', 'b'), time: 1 }),
    )
    expect(split).toEqual(joined)
    expect(split.items).toMatchObject([{ text: big, cut: [{ at: '/text', chars: mega + 7 }] }])
    const output = (content: string, more: Partial<EnvelopeData>): EnvelopeData =>
      envelope('command', { event: { kind: 'output', stream: 'stdout', content } }, { block: 's', ...more })
    const command = fold(output(big, begins('c')), output('yyy', { item: 'c' }))
    expect(command.items).toMatchObject([{ cut: [{ at: '/command/stdout', chars: mega + 2 }] }])
  })
})

describe('the stream', () => {
  const item = envelope('user_message', { segments: [] }, begins('a'))

  it('changes nothing when the same frame comes twice', () => {
    const list: Frame[] = [
      hello('fresh'),
      snapshot(fold(item), 'c'),
      { event: 'status', data: { runtime: 'rt', upstream: 'live', since: 1 } },
      { event: 'caught_up', data: {}, id: '1' },
      live('2', envelope('text_delta', { text: 'aa' }, begins('t', 'b'))),
      live('3', envelope('text_delta', { text: 'aa' }, { item: 't', block: 'b' })),
      { event: 'gap', data: { ...at, reason: 'upstream_frame_rejected' }, id: '4' },
      { event: 'command', data: { id: 'r', command: 'input.user', state: 'done' } },
      { event: 'reset', data: { ...at, reason: 'rewound' } },
      { event: 'view', data: { policy: 'q', views: [view] } },
      { event: 'beat', data: {}, id: '5' },
      { event: 'bye', data: { reason: 'rotated', retry_ms: 10 } },
    ]
    let state = emptyClientState()
    for (const frame of list) {
      state = reduce(state, frame)
      expect(reduce(state, frame)).toEqual(state)
    }
    expect(state.workers[key]).toMatchObject({ gaps: 1, reset: 'rewound', earlier: 'c' })
    expect(state.workers[key]?.state.items).toMatchObject([{ id: 'a' }, { text: 'aaaa' }])
    expect(state).toMatchObject({ position: '5', policy: 'q', bye: { reason: 'rotated', retryMs: 10 } })
  })

  it('moves its position by frames with an id alone', () => {
    const state = frames(hello('fresh'), { event: 'caught_up', data: {}, id: '1' }, hello('resumed'))
    expect(state.position).toBe('1')
  })

  it('moves its position past a frame it does not know', () => {
    const unknown = { event: 'novelty', data: {}, id: '9' } as unknown as Frame
    expect(frames(hello('fresh'), unknown)).toMatchObject({ position: '9', workers: {} })
  })

  it('replaces all that was known of a worker by its snapshot', () => {
    const state = frames(
      hello('fresh'),
      snapshot(fold(item)),
      snapshot({ ...emptyWorkerState(), status: 'idle' }),
    )
    expect(state.workers[key]?.state).toEqual({ ...emptyWorkerState(), status: 'idle' })
  })

  it('keeps the workers over a resume and clears them at a reset', () => {
    const before = [hello('fresh'), snapshot(fold(item))]
    expect(Object.keys(frames(...before, hello('resumed')).workers)).toEqual([key])
    expect(frames(...before, hello('reset')).workers).toEqual({})
    expect(frames(...before, hello('fresh')).workers).toEqual({})
  })

  it('drops a worker that a view or a resume no longer shows', () => {
    const hidden = { ...at, state: 'not_found' as const }
    const before = [hello('fresh'), snapshot(fold(item))]
    expect(frames(...before, { event: 'view', data: { policy: 'p', views: [hidden] } }).workers).toEqual({})
    expect(frames(...before, hello('resumed', [hidden])).workers).toEqual({})
  })

  it('is live from caught_up until a reset or a bye', () => {
    const caughtUp: Frame = { event: 'caught_up', data: {}, id: '1' }
    expect(frames(hello('fresh')).live).toBe(false)
    expect(frames(hello('fresh'), caughtUp).live).toBe(true)
    expect(frames(caughtUp, { event: 'reset', data: { ...at, reason: 'compacted' } }).live).toBe(false)
    expect(frames(caughtUp, { event: 'bye', data: { reason: 'shutdown', retry_ms: 0 } }).live).toBe(false)
  })

  it('tells the source of one worker apart from the connection to its Runtime', () => {
    const state = frames(
      hello('fresh'),
      { event: 'status', data: { runtime: 'rt', upstream: 'reconnecting', since: 5 } },
      { event: 'status', data: { ...at, upstream: 'degraded', since: 6, code: 'too_large' } },
    )
    expect(state.upstreams).toEqual({ rt: { upstream: 'reconnecting', since: 5 } })
    expect(state.workers[key]?.upstream).toEqual({ upstream: 'degraded', since: 6, code: 'too_large' })
  })

  it('keeps the newest hundred commands', () => {
    const many = Array.from(
      { length: 150 },
      (_, i): Frame => ({
        event: 'command',
        data: { id: `r${i}`, command: 'input.user', state: 'done' },
      }),
    )
    const { commands } = frames(...many)
    expect(Object.keys(commands)).toHaveLength(100)
    expect(Object.keys(commands).at(-1)).toBe('r149')
    expect(commands).not.toHaveProperty('r49')
  })
})

it('takes back the items of a run that was rolled back, and leaves those that are not known alone', () => {
  const at = { runtime: 'lab', worker: '7', time: 1 }
  const told = (event: string, data: Record<string, unknown>, more: object): EnvelopeData => ({
    ...at,
    event,
    data,
    ...more,
  })
  const steps = [
    told('text_done', { text: 'before' }, { item: 'a', begins: true }),
    told('user_message', { segments: [] }, { item: 'b', begins: true }),
    told('run_end', { result: 'rolled_back' }, { removes: ['b', 'unknown'] }),
  ]
  const state = steps.reduce(reduceWorker, emptyWorkerState())
  expect(state.items.map(i => i.id)).toEqual(['a'])
})
