import { createParser } from 'eventsource-parser'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createSseParser, type SseEvent } from './sse.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

function parse(
  chunks: readonly Uint8Array[],
  maxLineUnits?: number,
): { events: SseEvent[]; retries: number[] } {
  const events: SseEvent[] = []
  const retries: number[] = []
  const parser = createSseParser(
    e => events.push(e),
    ms => retries.push(ms),
    maxLineUnits,
  )
  for (const chunk of chunks) parser.push(chunk)
  return { events, retries }
}

function split(whole: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const at = [...new Set(cuts.map(c => c % (whole.length + 1)))].sort((a, b) => a - b)
  return [0, ...at].map((from, i) => whole.slice(from, at[i] ?? whole.length))
}

describe('the event stream parser', () => {
  it.each([
    ['LF', '\n'],
    ['CR', '\r'],
    ['CRLF', '\r\n'],
  ])('takes %s as the end of a line', (_, end) => {
    const { events } = parse([bytes(['event: a', 'id: 1', 'data: x', 'data: y', '', ''].join(end))])
    expect(events).toEqual([{ event: 'a', id: '1', data: 'x\ny' }])
  })

  it('gives an event out with the line end that completes it, and not one byte later', () => {
    const events: SseEvent[] = []
    const parser = createSseParser(e => events.push(e))
    parser.push(bytes('data: a\r\n\r'))
    expect(events).toHaveLength(1)
    parser.push(bytes('\ndata: b\r\n\r\n'))
    expect(events).toEqual([
      { event: '', data: 'a' },
      { event: '', data: 'b' },
    ])
  })

  it('never gives out what the end of the stream leaves unfinished', () => {
    expect(parse([bytes('id: 1\ndata: whole\n\nid: 2\ndata: half\n')]).events).toEqual([
      { event: '', id: '1', data: 'whole' },
    ])
  })

  it('takes a BOM off the beginning alone', () => {
    expect(parse([bytes('\ufeffdata: a\n\ndata: \ufeffb\n\n')]).events.map(e => e.data)).toEqual([
      'a',
      '\ufeffb',
    ])
  })

  it('passes over comments, unknown fields, ids with NUL and waits that are no number', () => {
    const { events, retries } = parse([
      bytes(': hi\nfoo: bar\nid: a\0b\nretry: soon\nretry: 250\nretry: -1\ndata\ndata:  two\n\n'),
    ])
    expect(events).toEqual([{ event: '', data: '\n two' }])
    expect(retries).toEqual([250])
  })

  it('gives an id that came without data', () => {
    expect(parse([bytes('id: 7\n\n\n\n')]).events).toEqual([{ event: '', id: '7', data: '' }])
  })

  it('refuses a line and an event past the limit, however they are cut', () => {
    expect(() => parse([bytes(`data: ${'x'.repeat(100)}`)], 64)).toThrow(RangeError)
    expect(() =>
      parse(
        Array.from({ length: 100 }, () => bytes('x')),
        64,
      ),
    ).toThrow(RangeError)
    expect(() =>
      parse(
        Array.from({ length: 10 }, () => bytes('data: 1234567890\n')),
        64,
      ),
    ).toThrow(RangeError)
    expect(parse([bytes(`data: ${'x'.repeat(50)}\n\n`.repeat(9))], 64).events).toHaveLength(9)
  })

  const lineEnd = fc.constantFrom('\n', '\r', '\r\n')
  const value = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('😀', '\u2028', 'data: x', ':', '\ufeff'),
  )
  const line = fc
    .tuple(fc.constantFrom('data', 'event', 'id', 'other', ''), value)
    .map(([name, text]) => `${name}: ${text.replace(/[\r\n\0]/g, '')}`)
  const stream = fc.array(fc.tuple(fc.oneof(line, fc.constant('')), lineEnd))

  it('reads the same from every chunking, inside UTF-8 sequences and between CR and LF included', () => {
    fc.assert(
      fc.property(stream, fc.array(fc.nat()), (lines, cuts) => {
        const whole = bytes(lines.map(([text, end]) => text + end).join(''))
        const once = parse([whole])
        expect(parse(split(whole, cuts))).toEqual(once)
        expect(parse(Array.from(whole, b => Uint8Array.of(b)))).toEqual(once)
      }),
    )
  })

  it('reads what another parser of the same standard reads', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.oneof(line, fc.constant('')), fc.constantFrom('\n', '\r\n'))),
        lines => {
          const text = lines.map(([l, end]) => l + end).join('')
          const expected: SseEvent[] = []
          const parser = createParser({
            onEvent: e =>
              expected.push({ event: e.event ?? '', data: e.data, ...(e.id !== undefined && { id: e.id }) }),
          })
          parser.feed(text)
          expect(parse([bytes(text)]).events.filter(e => e.data !== '')).toEqual(
            expected.filter(e => e.data !== ''),
          )
        },
      ),
    )
  })
})
