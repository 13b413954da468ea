import { describe, expect, it } from 'vitest'
import { asSeq } from '../entry.ts'
import { expandList, type Told } from '../expand.ts'
import { step } from '../step.ts'
import { close, inWindow, isOver, type Offered, offer, openStitch, type Stitch } from './stitch.ts'

const told = (event: string, data: Record<string, unknown> = {}): Told => ({ event, data })
const delta = (text: string): Told => told('text_delta', { text })
const done = (text: string): Told => told('text_done', { text })

const open = (...blocks: object[]): Stitch => {
  const data = { entries: [], status: 'running', in_flight: { blocks } }
  const stitch = openStitch(expandList('snapshot', data, asSeq(1), { status: null }).list)
  if (stitch === null) throw new Error('nothing to stitch')
  return stitch
}
const text = (words: string, finished?: true) => ({
  kind: 'text',
  text: words,
  ...(finished && { finished }),
})
const thinking = (words: string, finished?: true) => ({ ...text(words, finished), kind: 'thinking' })

const feed = (stitch: Stitch, events: readonly Told[], nowMs = 0): Offered[] =>
  events.flatMap(event => offer(stitch, event, nowMs))

/** Short: the text of a piece, or the event's name; `=` before what is overlap. */
const shown = (out: readonly Offered[]): string[] =>
  out.map(({ event, overlap }) => {
    const words = event.event.endsWith('_delta') ? String(event.data.text) : event.event
    return `${overlap ? '=' : ''}${words}`
  })

const newText = (out: readonly Offered[]): string =>
  out
    .map(({ event, overlap }) => (overlap || !event.event.endsWith('_delta') ? '' : event.data.text))
    .join('')

describe('an open block', () => {
  it('takes pieces that the text ends with for overlap, and everything behind them for new', () => {
    const stitch = open(text('one two three '))
    expect(shown(feed(stitch, [delta('two ')]))).toEqual([])
    expect(shown(feed(stitch, [delta('three ')]))).toEqual(['=two ', '=three '])
    expect(isOver(stitch)).toBe(true)
    expect(shown(feed(stitch, [delta('two ')]))).toEqual(['two '])
  })

  it('takes what was not said yet for new at once', () => {
    const stitch = open(text('one two '))
    expect(shown(feed(stitch, [delta('three ')]))).toEqual(['three '])
    expect(isOver(stitch)).toBe(true)
  })

  it('takes what is held at the done for overlap, and the done for what it is', () => {
    const stitch = open(text('one two three '))
    expect(shown(feed(stitch, [delta('two '), done('one two three two ')]))).toEqual(['=two ', 'text_done'])
  })

  it.each(['end of the connection', 'new list'])('takes what is held at the %s for overlap', how => {
    const stitch = open(text('one two three '))
    feed(stitch, [delta('two '), told('usage')])
    if (how === 'new list') {
      const out = feed(stitch, [told('snapshot', { entries: [], status: 'idle' })])
      expect(shown(out)).toEqual(['=two ', 'usage', 'snapshot'])
    } else expect(shown(close(stitch))).toEqual(['=two ', 'usage'])
    expect(isOver(stitch)).toBe(true)
  })

  it('judges what is held at an end without a done: in a stream without loss, more of the overlap would have come', () => {
    expect(shown(feed(open(text('one two ')), [delta('one '), told('error')]))).toEqual(['one ', 'error'])
    expect(shown(feed(open(text('a a ')), [delta('a '), told('error')]))).toEqual(['=a ', 'error'])
  })

  it('knows its own beginning when that comes again', () => {
    const stitch = open(thinking('Let me'))
    const again = [told('llm_call_start'), told('thinking_start'), told('thinking_delta', { text: 'Let me' })]
    expect(shown(feed(stitch, again))).toEqual(['=llm_call_start', '=thinking_start', '=Let me'])
  })

  it('does not take the next turn for its own beginning once something of it came', () => {
    const stitch = open(text('one two '))
    expect(shown(feed(stitch, [delta('one '), told('llm_call_start')]))).toEqual(['one ', 'llm_call_start'])
    expect(isOver(stitch)).toBe(true)
  })
})

describe('an upstream that loses some of the overlap', () => {
  const long = Array.from({ length: 300 }, (_, n) => `${String(n).padStart(6, '0')} xx\n`)

  it('takes a chain of pieces for overlap by two witnesses', () => {
    const stitch = open(text(long.slice(0, 200).join('')))
    const out = feed(
      stitch,
      [20, 21, 50, 190, 230, 231].map(n => delta(long[n]!)),
    )
    expect(shown(out).map(words => words.slice(0, 1))).toEqual(['=', '=', '=', '=', '0', '0'])
  })

  it('takes one run for new, as a text that says a passage again', () => {
    const stitch = open(text(long.slice(0, 200).join('')))
    expect(
      newText(
        feed(
          stitch,
          [20, 21, 22, 230].map(n => delta(long[n]!)),
        ),
      ),
    ).toContain('000020')
  })

  it('does not take short pieces for witnesses, nor passages that stand twice', () => {
    const repeated = 'if (left) return\nif (right) return\nif (left) return\nif (right) return\n}\n'
    const pieces = ['if (', 'right', ') return\n', 'if (', 'left', ') throw\n'].map(delta)
    expect(newText(feed(open(text(repeated)), pieces))).toBe('if (right) return\nif (left) throw\n')
  })

  it('goes on without holding when more pieces come at once than it holds', () => {
    const all = Array.from({ length: 600 }, (_, n) => `${n} `)
    const stitch = open(text(all.slice(0, 500).join('')))
    const out = feed(stitch, all.slice(100).map(delta))
    expect(newText(out)).toBe(all.slice(500).join(''))
  })
})

describe('a finished block', () => {
  it('takes its deltas and its done for overlap, and goes on with the open one', () => {
    const stitch = open(thinking('Hm, so.', true), text('one two '))
    const again = [
      told('thinking_start'),
      told('thinking_delta', { text: 'Hm, ' }),
      told('thinking_delta', { text: 'so.' }),
      told('thinking_done', { text: 'Hm, so.' }),
      delta('one '),
      delta('two '),
      delta('three '),
    ]
    const names = ['=thinking_start', '=Hm, ', '=so.', '=thinking_done', '=one ', '=two ', 'three ']
    expect(shown(feed(stitch, again))).toEqual(names)
  })

  it('tells two blocks of one kind apart', () => {
    const stitch = open(text('First block. ', true), text('Second '))
    const again = [
      delta('block. '),
      done('First block. '),
      delta('Second '),
      delta('one.'),
      done('Second one.'),
    ]
    const names = ['=block. ', '=text_done', '=Second ', 'one.', 'text_done']
    expect(shown(feed(stitch, again))).toEqual(names)
  })

  it('takes a new block that begins alike for new, by its done', () => {
    const stitch = open(text('Done. All fine.', true))
    expect(shown(feed(stitch, [delta('Done. '), done('Done. ')]))).toEqual(['Done. ', 'text_done'])
  })

  it('is forgotten at the end of its turn', () => {
    const stitch = open(text('Done.', true))
    expect(inWindow(stitch, '')).toBe(true)
    feed(stitch, [told('llm_call_end')])
    expect([inWindow(stitch, ''), isOver(stitch)]).toEqual([false, true])
  })
})

it('ends blocks at the events that end them in the fold', () => {
  const names = [
    ...[
      'invoke_start',
      'turn_start',
      'turn_end',
      'llm_call_start',
      'llm_call_end',
      'llm_retry',
      'error',
      'alert',
    ],
    ...['llm_continuation', 'run_end', 'shutdown', 'usage', 'compact_start', 'compact_done', 'tool_result'],
    ...['tool_call_start', 'tool_call_done', 'user_message', 'system_item', 'memory_worker', 'unheard_of'],
  ]
  const events = [...names.map(name => told(name, { id: 'c' }))]
  for (const status of ['idle', 'running', 'paused']) events.push(told('status', { status }))
  for (const event of events) {
    const data = { entries: [], status: 'running', in_flight: { blocks: [text('one two ')] } }
    const { list, state } = expandList('snapshot', data, asSeq(1), { status: null })
    const stitch = openStitch(list)!
    feed(stitch, [delta('one ')])
    const { ends } = step(state, event.event, event.data, { seq: asSeq(2), index: 0 })
    const endsBlock = ends?.some(block => block.kind === 'text') === true
    expect(feed(stitch, [event]).length > 0, JSON.stringify(event)).toBe(endsBlock)
  }
})
