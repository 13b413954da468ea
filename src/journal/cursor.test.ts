import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Cursors, createCursors } from './cursor.ts'
import { asSeq, type Key, SEQ_MAX } from './entry.ts'
import type { Generation } from './journal.ts'

const KEY = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex')
const TAG = Buffer.from('a1b2c3d4', 'hex')
const generation = (id: number, first: number): Generation => ({ id, first: asSeq(first) })

interface World {
  readonly key?: Buffer
  readonly generations?: readonly Generation[]
  readonly head: number
}
const cursorsOf = ({ key = KEY, generations = [generation(7, 1)], head }: World): Cursors =>
  createCursors({ key, generations: () => generations, head: () => asSeq(head) })

const seqUpTo = (head: number) => fc.integer({ min: 0, max: head }).map(asSeq)
const tags = fc.uint8Array({ minLength: 4, maxLength: 4 })

/** Starts of a journal: each goes on behind what the one before used, and some find nothing new. */
const histories = fc
  .array(fc.record({ id: fc.integer({ min: 0, max: 2 ** 32 - 1 }), used: fc.integer({ min: 0, max: 5 }) }), {
    minLength: 1,
    maxLength: 6,
  })
  .filter(starts => new Set(starts.map(s => s.id)).size === starts.length)
  .map(starts => {
    let head = 0
    const generations = starts.map(({ id, used }) => {
      const made = generation(id, head + 1)
      head += used
      return made
    })
    return { generations, head }
  })

const flipBit = (text: string, bit: number): string => {
  const bytes = Buffer.from(text, 'base64url')
  bytes.writeUInt8(bytes.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
  return bytes.toString('base64url')
}

describe('a cursor', () => {
  it('comes back as the position it was made of', () => {
    fc.assert(
      fc.property(histories, tags, fc.nat(), (world, tag, pick) => {
        const seq = asSeq(pick % (world.head + 1))
        const cursors = cursorsOf(world)
        expect(cursors.decode(cursors.encode(seq, tag), tag)).toEqual({ ok: true, seq })
      }),
    )
    const far = cursorsOf({ head: SEQ_MAX })
    expect(far.decode(far.encode(asSeq(SEQ_MAX), TAG), TAG)).toEqual({ ok: true, seq: SEQ_MAX })
  })

  it('is 22 base64url characters that look new every time', () => {
    const cursors = cursorsOf({ head: 9 })
    const made = Array.from({ length: 100 }, () => cursors.encode(asSeq(5), TAG))
    for (const text of made) expect(text).toMatch(/^[\w-]{22}$/)
    expect(new Set(made).size).toBeGreaterThan(95)
    expect(new Set(made.map(text => text.slice(0, 4))).size).toBeGreaterThan(95)
  })

  it('is never made for what is not durable', () => {
    expect(() => cursorsOf({ head: 9 }).encode(asSeq(10), TAG)).toThrow(RangeError)
  })

  it('with any bit changed names nothing', () => {
    const cursors = cursorsOf({ head: SEQ_MAX })
    fc.assert(
      fc.property(seqUpTo(1_000_000), fc.integer({ min: 0, max: 127 }), (seq, bit) => {
        const text = cursors.encode(seq, TAG)
        expect(cursors.decode(flipBit(text, bit), TAG)).toMatchObject({ ok: false })
      }),
    )
  })

  it('has one spelling: its four spare bits are zero', () => {
    const cursors = cursorsOf({ head: 9 })
    const text = cursors.encode(asSeq(5), TAG)
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const spellings = [...alphabet].map(last => text.slice(0, 21) + last)
    const same = spellings.filter(one => Buffer.from(one, 'base64url').equals(Buffer.from(text, 'base64url')))
    expect(same).toHaveLength(16)
    for (const one of same)
      expect(cursors.decode(one, TAG)).toEqual(
        one === text ? { ok: true, seq: 5 } : { ok: false, reason: 'cursor_malformed' },
      )
  })

  it('of any other text is malformed or unknown, and nothing throws', () => {
    const cursors = cursorsOf({ head: 1_000_000 })
    const texts = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 50 }),
      fc.stringMatching(/^[A-Za-z0-9_-]{22}$/),
      fc.stringMatching(/^[A-Za-z0-9_-]{21}[AQgw]$/),
    )
    fc.assert(
      fc.property(texts, text => {
        const decoded = cursors.decode(text, TAG)
        const wellFormed = /^[A-Za-z0-9_-]{21}[AQgw]$/.test(text)
        expect(decoded).toEqual({ ok: false, reason: wellFormed ? 'cursor_unknown' : 'cursor_malformed' })
      }),
    )
    for (const text of ['', '1', `${'A'.repeat(21)}=`, `${'A'.repeat(22)}\n`, 'A'.repeat(23)])
      expect(cursors.decode(text, TAG)).toEqual({ ok: false, reason: 'cursor_malformed' })
  })

  it('under another tag is a changed view', () => {
    const cursors = cursorsOf({ head: 9 })
    fc.assert(
      fc.property(tags, tags, (mine, yours) => {
        fc.pre(!Buffer.from(mine).equals(Buffer.from(yours)))
        const text = cursors.encode(asSeq(5), mine)
        expect(cursors.decode(text, yours)).toEqual({ ok: false, reason: 'view_changed' })
      }),
    )
  })

  it('of another journal is unknown, whatever its number', () => {
    const theirs = cursorsOf({ key: randomBytes(16), head: 1000 })
    const ours = cursorsOf({ head: 1000 })
    for (let seq = 0; seq <= 1000; seq++)
      expect(ours.decode(theirs.encode(asSeq(seq), TAG), TAG)).toEqual({
        ok: false,
        reason: 'cursor_unknown',
      })
  })

  it('stays good over restarts in which an idle viewer missed nothing', () => {
    const before = cursorsOf({ generations: [generation(1, 1)], head: 10 })
    const idle = before.encode(asSeq(10), TAG)
    const fresh = before.encode(asSeq(0), TAG)
    const after = cursorsOf({
      generations: [generation(1, 1), generation(2, 11), generation(3, 11)],
      head: 10,
    })
    expect(after.decode(idle, TAG)).toEqual({ ok: true, seq: 10 })
    expect(after.decode(fresh, TAG)).toEqual({ ok: true, seq: 0 })
    // The position before a generation's first is in that generation's range.
    const still = after.encode(asSeq(10), TAG)
    const later = cursorsOf({ generations: [generation(1, 1), generation(3, 11)], head: 30 })
    expect(later.decode(still, TAG)).toEqual({ ok: true, seq: 10 })
  })

  /**
   * Law 1 over any history of starts and losses: what a cursor names now is the entry that it named when it
   * was made, or nothing. The end of a journal may be lost in a crash, a backup may be put back.
   */
  it('never names another entry, whatever was lost in between (cases 2 and 8)', () => {
    const steps = fc.array(
      fc.oneof(
        fc.record({ do: fc.constant('write' as const), entries: fc.integer({ min: 1, max: 4 }) }),
        fc.record({ do: fc.constant('restart' as const) }),
        fc.record({ do: fc.constant('lose' as const), entries: fc.integer({ min: 1, max: 6 }) }),
        fc.record({ do: fc.constant('backup' as const) }),
        fc.record({ do: fc.constant('restore' as const) }),
      ),
      { maxLength: 30 },
    )
    fc.assert(
      fc.property(steps, script => {
        let ids = 0
        let written = 0
        let log: number[] = []
        let generations: Generation[] = []
        const start = (): void => {
          generations = [...generations, generation(++ids * 7919, log.length + 1)]
        }
        const cursors = createCursors({
          key: KEY,
          generations: () => generations,
          head: () => asSeq(log.length),
        })
        const handed: { text: string; seq: number; entry: number | undefined }[] = []
        const hand = (): void => {
          const seq = log.length
          handed.push({ text: cursors.encode(asSeq(seq), TAG), seq, entry: log[seq - 1] })
        }
        start()
        let backup = { log, generations }
        for (const step of script) {
          if (step.do === 'write')
            for (let i = 0; i < step.entries; i++) {
              log = [...log, ++written]
              hand()
            }
          if (step.do === 'lose') log = log.slice(0, Math.max(0, log.length - step.entries))
          if (step.do === 'backup') backup = { log, generations }
          if (step.do === 'restore') ({ log, generations } = backup)
          if (step.do !== 'write' && step.do !== 'backup') {
            // A crash that loses entries loses the generations that were opened after them.
            generations = generations.filter(g => g.first <= log.length + 1)
            start()
          }
          hand()
        }
        for (const { text, seq, entry } of handed) {
          const decoded = cursors.decode(text, TAG)
          if (!decoded.ok) expect(decoded.reason).toBe('cursor_unknown')
          else {
            expect(decoded.seq).toBe(seq)
            expect(log[seq - 1]).toBe(entry)
          }
        }
      }),
    )
  })
})

describe('a position of a page', () => {
  const keys = fc.record({ seq: seqUpTo(1_000), index: fc.integer({ min: 0, max: 2 ** 32 - 1 }) })
  const cursors = cursorsOf({ head: 1_000 })

  it('comes back as it was, under the same tag only', () => {
    fc.assert(
      fc.property(keys, tags, tags, (key: Key, mine, yours) => {
        fc.pre(!Buffer.from(mine).equals(Buffer.from(yours)))
        const text = cursors.encodePage(key, mine)
        expect(text).toMatch(/^[\w-]{43}$/)
        expect(cursors.decodePage(text, mine)).toEqual({ ok: true, key })
        expect(cursors.decodePage(text, yours)).toEqual({ ok: false, reason: 'view_changed' })
      }),
    )
  })

  it('with any bit changed, or a half of another one, names nothing', () => {
    fc.assert(
      fc.property(keys, keys, fc.integer({ min: 0, max: 255 }), (key, other, bit) => {
        const [one, two] = [cursors.encodePage(key, TAG), cursors.encodePage(other, TAG)]
        expect(cursors.decodePage(flipBit(one, bit), TAG)).toMatchObject({ ok: false })
        const [a, b] = [Buffer.from(one, 'base64url'), Buffer.from(two, 'base64url')]
        const spliced = Buffer.concat([a.subarray(0, 16), b.subarray(16)]).toString('base64url')
        expect(cursors.decodePage(spliced, TAG)).toEqual({ ok: false, reason: 'cursor_unknown' })
      }),
    )
  })

  it('is no cursor of a stream, and a cursor is none of a page', () => {
    const page = cursors.encodePage({ seq: asSeq(5), index: 0 }, TAG)
    const half = Buffer.from(page, 'base64url').subarray(0, 16).toString('base64url')
    expect(cursors.decode(page, TAG)).toEqual({ ok: false, reason: 'cursor_malformed' })
    expect(cursors.decode(half, TAG)).toEqual({ ok: false, reason: 'cursor_unknown' })
    expect(cursors.decodePage(cursors.encode(asSeq(5), TAG), TAG)).toEqual({
      ok: false,
      reason: 'cursor_malformed',
    })
  })

  it('has one spelling: its two spare bits are zero', () => {
    const text = cursors.encodePage({ seq: asSeq(5), index: 1 }, TAG)
    const bytes = Buffer.from(text, 'base64url')
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const same = [...alphabet]
      .map(last => text.slice(0, 42) + last)
      .filter(t => Buffer.from(t, 'base64url').equals(bytes))
    expect(same).toHaveLength(4)
    expect(same.filter(t => cursors.decodePage(t, TAG).ok)).toEqual([text])
  })
})

/** A change of the layout would refuse every cursor that is out there. */
it('is laid out as the design says', () => {
  const cursors = createCursors({
    key: KEY,
    generations: () => [generation(0x01020304, 1)],
    head: () => asSeq(0x060708090a0b),
    random: size => Buffer.alloc(size, 0x5a),
  })
  // openssl enc -aes-128-ecb -nopad of 01020304 060708090a0b 5a5a a1b2c3d4 under 000102…0f.
  expect(cursors.encode(asSeq(0x060708090a0b), TAG)).toBe('oGC2a6KsfGWiSqqp-07r-w')
})
