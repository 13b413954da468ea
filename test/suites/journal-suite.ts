/** What every `Journal` must do, with time passing before and after each call. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { asSeq, type Context, type Entry, type Seq, type StreamId } from '../../src/journal/entry.ts'
import type { Commit, Journal, Page, PageLimits, StreamRecord } from '../../src/journal/journal.ts'
import { pause, seededRandom, withDelays } from '../_support/with-delays.ts'

export interface OpenedJournal {
  readonly journal: Journal
  /** Closes it in order and opens what it left behind. */
  reopen(): Promise<Journal>
  dispose(): Promise<void>
}

const LIMITS: PageLimits = { maxRows: 100, maxBytes: 1024 * 1024 }
const DAY = 86_400_000

export const journalSuite = (name: string, open: () => Promise<OpenedJournal>): void => {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 32))
  describe(`${name}, as a journal (SEED=${seed})`, () => {
    const random = seededRandom(seed)
    let opened: OpenedJournal
    let journal: Journal
    let next: number

    beforeEach(async () => {
      opened = await open()
      journal = withDelays(opened.journal, random)
      next = journal.firstSeq
    })
    afterEach(() => opened.dispose())

    const reopen = async (): Promise<void> => {
      journal = withDelays(await opened.reopen(), random)
      next = journal.firstSeq
    }
    const stream = (worker: string, runtime = 'rt'): Promise<StreamRecord> =>
      journal.openStream({ source: 'runtime', runtime, worker }, null)

    /** An entry with the next seq. */
    const entry = (of: StreamRecord, part: Partial<Entry> = {}): Entry => {
      const seq = asSeq(next++)
      const payload = `{"event":"text_delta","data":{"delta":"${seq}"}}`
      const plain = {
        incarnation: 1,
        time: 1_000,
        event: 'text_delta',
        eventId: `e${seq}`,
        context: {},
        mark: false,
      }
      return { seq, stream: of.id, payload, ...plain, ...part }
    }
    const replacing = (of: StreamRecord, part: Partial<Entry> = {}): Entry =>
      entry(of, { event: 'snapshot', context: { replaces: true }, ...part })

    const commit = async (
      entries: readonly Entry[],
      rest: Omit<Parameters<Journal['append']>[0], 'entries'> = {},
    ) => {
      journal.append({ entries, ...rest })
      const last = entries.at(-1)
      if (last !== undefined) await journal.durable(last.seq)
    }
    const readAll = async (streams: readonly StreamId[], after: Seq, limits = LIMITS): Promise<Entry[]> => {
      const found: Entry[] = []
      for (let position = after; ; ) {
        const page = await journal.readAfter(streams, position, limits)
        found.push(...page.entries)
        position = page.through
        if (page.atHead) return found
      }
    }
    const seqs = (entries: readonly Entry[]): number[] => entries.map(e => e.seq)

    describe('appending', () => {
      it('begins at 1 with one generation', async () => {
        expect(journal.firstSeq).toBe(1)
        expect(journal.head).toBe(0)
        expect(journal.generations).toHaveLength(1)
        expect(journal.generations[0]?.first).toBe(1)
        expect(journal.keys.cursor).toHaveLength(16)
        expect(journal.keys.id).toHaveLength(32)
        expect(await journal.streams()).toEqual([])
      })

      it('gives back an entry as it was, texts to the letter', async () => {
        const w = await stream('w')
        const context: Context = { item: { seq: asSeq(1), index: 3 }, tool: null, ends: [], replaces: true }
        const payload = '{ "event":"x",  "data":{"n":12345678901234567890,"s":"\\u0000 é 🌒 \\ud800"} }'
        const stored = entry(w, { payload, context, mark: true, event: 'ünknown', time: 1_700_000_000_123 })
        await commit([stored])
        expect(await journal.readEntry(stored.seq)).toEqual(stored)
        expect((await journal.readAfter([w.id], asSeq(0), LIMITS)).entries).toEqual([stored])
        expect(await journal.readEntry(asSeq(99))).toBeNull()
      })

      it('shows nothing of what is appended before it is durable', async () => {
        const w = await stream('w')
        const stored = entry(w)
        opened.journal.append({ entries: [stored] })
        expect(journal.head).toBe(0)
        expect(journal.queuedBytes).toBeGreaterThan(stored.payload.length)
        // Without a turn of the loop nothing can have been committed.
        const page = await opened.journal.readAfter([w.id], asSeq(0), LIMITS)
        expect(page).toEqual({ entries: [], through: 0, atHead: true })
        await journal.durable(stored.seq)
        expect(journal.head).toBe(stored.seq)
        expect(journal.queuedBytes).toBe(0)
      })

      it('tells of each commit once, in order, with the very entries that were appended', async () => {
        const w = await stream('w')
        const told: Commit[] = []
        const stop = journal.onCommit(one => told.push(one))
        const all: Entry[] = []
        for (let round = 0; round < 20; round++) {
          const batch = Array.from({ length: 1 + Math.floor(random() * 50) }, () => entry(w))
          all.push(...batch)
          journal.append({ entries: batch })
          await pause(random)
        }
        await journal.durable(asSeq(next - 1))
        const entries = told.flatMap(one => one.entries)
        expect(entries).toHaveLength(all.length)
        expect(entries.every((one, i) => one === all[i])).toBe(true)
        let head = 0
        for (const one of told) {
          expect(one.after).toBe(head)
          expect(one.head).toBe(one.entries.at(-1)?.seq)
          head = one.head
        }
        stop()
        await commit([entry(w)])
        expect(told.flatMap(one => one.entries)).toHaveLength(all.length)
      })

      it('refuses entries out of order and goes on with the next', async () => {
        const w = await stream('w')
        const [first, second] = [entry(w), entry(w)]
        journal.append({ entries: [second] })
        expect(() => journal.append({ entries: [first] })).toThrow(
          expect.objectContaining({ code: 'internal' }),
        )
        const third = entry(w)
        await commit([third])
        expect(seqs(await readAll([w.id], asSeq(0)))).toEqual([second.seq, third.seq])
      })

      it('drops a repeated event, counts it, and keeps its neighbours', async () => {
        const [w, v] = [await stream('w'), await stream('v')]
        const told: number[] = []
        journal.onCommit(one => told.push(...seqs(one.entries)))
        await commit([entry(w, { eventId: 'a' })])
        const kept = [
          entry(w, { eventId: 'b' }),
          entry(v, { eventId: 'a' }),
          entry(w, { eventId: 'a', incarnation: 2 }),
        ]
        const dropped = [entry(w, { eventId: 'a' }), entry(w, { eventId: 'b' })]
        const last = entry(w, { eventId: 'c' })
        await commit([...kept, ...dropped, last])
        const expected = [1, ...seqs(kept), last.seq]
        expect(told).toEqual(expected)
        expect(seqs(await readAll([w.id, v.id], asSeq(0)))).toEqual(expected)
        expect((await journal.stats()).repeated).toBe(2)
        expect((await journal.stats()).entries).toBe(5)
      })

      it('holds a dropped event durable, and does not move the head to it', async () => {
        const w = await stream('w')
        await commit([entry(w, { eventId: 'a' })])
        await commit([entry(w, { eventId: 'a' })])
        expect(journal.head).toBe(1)
        const after = entry(w, { eventId: 'b' })
        await commit([after])
        expect(journal.head).toBe(after.seq)
      })

      it('commits positions and incarnations together with their entries', async () => {
        const w = await stream('w')
        expect(await journal.readPosition(w.id)).toBeNull()
        await commit([entry(w)], {
          positions: [{ stream: w.id, position: '{"cursor":"x"}' }],
          incarnations: [{ stream: w.id, incarnation: 7 }],
        })
        expect(await journal.readPosition(w.id)).toBe('{"cursor":"x"}')
        await commit([entry(w)], { positions: [{ stream: w.id, position: '{"cursor":"y"}' }] })
        await reopen()
        expect(await journal.readPosition(w.id)).toBe('{"cursor":"y"}')
        expect((await journal.streams())[0]).toMatchObject({ id: w.id, incarnation: 7 })
      })
    })

    describe('streams', () => {
      it('makes a stream once, however often and however simultaneously it is opened', async () => {
        const records = await Promise.all(Array.from({ length: 10 }, (_, i) => stream(`w${i % 2}`)))
        expect(new Set(records.map(r => r.id)).size).toBe(2)
        expect(await journal.streams()).toHaveLength(2)
        const again = await journal.openStream({ source: 'runtime', runtime: 'rt', worker: 'w0' }, 'other')
        expect(again).toMatchObject({ id: records[0]?.id, profile: null, incarnation: 0, lastDeleted: 0 })
        expect((await stream('w0', 'rt2')).id).not.toBe(again.id)
        expect((await journal.openStream({ source: 'mcp', runtime: 'rt', worker: 'w0' }, null)).id).not.toBe(
          again.id,
        )
      })

      it('keeps profiles over a restart', async () => {
        const w = await journal.openStream({ source: 'runtime', runtime: 'rt', worker: 'w' }, 'coder')
        expect(w.profile).toBe('coder')
        await journal.setProfile(w.id, 'writer')
        expect((await journal.streams())[0]?.profile).toBe('writer')
        await reopen()
        expect(await journal.streams()).toEqual([{ ...w, profile: 'writer' }])
      })
    })

    describe('reading after a position', () => {
      it('reads any selection from any position with any limits as the whole would filter', async () => {
        const records = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map(worker => stream(worker)))
        const all: Entry[] = []
        for (let i = 0; i < 600; i++) {
          // Runs of one stream, holes, and streams that are seldom written to.
          const of = records[Math.floor(random() ** 3 * records.length)] ?? records[0]
          if (of === undefined) throw new Error('unreachable')
          if (random() < 0.1) next += Math.floor(random() * 20)
          const run = Array.from({ length: 1 + Math.floor(random() * 4) }, () => entry(of))
          all.push(...run)
          opened.journal.append({ entries: run })
        }
        await journal.durable(asSeq(next - 1))
        for (let round = 0; round < 60; round++) {
          const chosen = records.filter(() => random() < 0.5).map(record => record.id)
          const after = asSeq(Math.floor(random() * next))
          const limits = { maxRows: 1 + Math.floor(random() * 40), maxBytes: 1 + Math.floor(random() * 2000) }
          const expected = all.filter(e => e.seq > after && chosen.includes(e.stream))
          expect(seqs(await readAll(chosen, after, limits))).toEqual(seqs(expected))
        }
      })

      it('bounds a page by rows and bytes, and always gives one entry', async () => {
        const [w, v] = [await stream('w'), await stream('v')]
        const big = 'x'.repeat(1000)
        await commit(Array.from({ length: 10 }, (_, i) => entry(i % 3 === 0 ? w : v, { payload: big })))
        for (const chosen of [[v.id], [w.id, v.id]]) {
          expect(
            (await journal.readAfter(chosen, asSeq(0), { maxRows: 3, maxBytes: 1e6 })).entries,
          ).toHaveLength(3)
          expect(
            (await journal.readAfter(chosen, asSeq(0), { maxRows: 100, maxBytes: 2100 })).entries,
          ).toHaveLength(2)
          const page = await journal.readAfter(chosen, asSeq(0), { maxRows: 100, maxBytes: 1 })
          expect(page.entries).toHaveLength(1)
          expect(page).toMatchObject({ atHead: false, through: page.entries[0]?.seq })
        }
      })

      it('reaches the head where nothing of the selection is left', async () => {
        const [w, v] = [await stream('w'), await stream('v')]
        await commit([entry(w), entry(v), entry(v)])
        const expected: Page = { entries: [], through: asSeq(3), atHead: true }
        expect(await journal.readAfter([w.id], asSeq(1), LIMITS)).toEqual(expected)
        expect(await journal.readAfter([], asSeq(0), LIMITS)).toEqual(expected)
        expect(await journal.readAfter([w.id, v.id], asSeq(3), LIMITS)).toEqual(expected)
      })

      it('resumes ten before the end of 20,000 with exactly the last ten (case 1)', async () => {
        const [w, v] = [await stream('w'), await stream('v')]
        for (let i = 0; i < 40; i++)
          opened.journal.append({
            entries: Array.from({ length: 500 }, (_, k) => entry(k % 5 === 0 ? v : w)),
          })
        await journal.durable(asSeq(next - 1))
        const page = await journal.readAfter([w.id, v.id], asSeq(19_990), LIMITS)
        expect(seqs(page.entries)).toEqual(Array.from({ length: 10 }, (_, i) => 19_991 + i))
        expect(page).toMatchObject({ through: 20_000, atHead: true })
      })

      it('takes holes in the sequence for nothing (case 7)', async () => {
        const w = await stream('w')
        const made: Entry[] = []
        for (let i = 0; i < 10; i++) {
          next += i
          made.push(entry(w))
        }
        await commit(made)
        expect(seqs(await readAll([w.id], asSeq(0), { maxRows: 3, maxBytes: 1e6 }))).toEqual(seqs(made))
      })
    })

    describe('following', () => {
      it('resolves at once behind the head, and with the next commit at it', async () => {
        const w = await stream('w')
        const { signal } = new AbortController()
        await commit([entry(w)])
        expect(await journal.changedSince(asSeq(0), signal)).toBe(1)
        const waited = journal.changedSince(asSeq(1), signal)
        await pause(random)
        await commit([entry(w)])
        expect(await waited).toBe(2)
      })

      it('lets go of one who gives up', async () => {
        const gaveUp = new AbortController()
        const waits = [
          journal.changedSince(asSeq(0), gaveUp.signal),
          journal.durable(asSeq(5), gaveUp.signal),
        ]
        gaveUp.abort()
        for (const result of await Promise.allSettled(waits))
          expect(result).toMatchObject({ status: 'rejected', reason: { code: 'aborted' } })
        await expect(journal.changedSince(asSeq(0), gaveUp.signal)).rejects.toMatchObject({ code: 'aborted' })
      })

      it('wakes one who read an empty page just before a commit (case 88)', async () => {
        const w = await stream('w')
        const { signal } = new AbortController()
        for (let round = 0; round < 100; round++) {
          const [page] = await Promise.all([
            journal.readAfter([w.id], journal.head, LIMITS),
            pause(random).then(() => commit([entry(w)])),
          ])
          const position = page.through
          expect(await journal.changedSince(asSeq(Math.min(position, next - 2)), signal)).toBeGreaterThan(
            next - 2,
          )
        }
      })

      it('gives a follower everything once while entries are committed (case 5)', async () => {
        const records = await Promise.all(['a', 'b', 'c'].map(worker => stream(worker)))
        const [a, b, c] = records
        if (a === undefined || b === undefined || c === undefined) throw new Error('unreachable')
        const stop = new AbortController()
        const follow = async (chosen: readonly StreamId[]): Promise<number[]> => {
          const seen: number[] = []
          for (let position = asSeq(0); ; ) {
            const page = await journal.readAfter(chosen, position, { maxRows: 7, maxBytes: 1e6 })
            seen.push(...seqs(page.entries))
            position = page.through
            if (!page.atHead) continue
            if (stop.signal.aborted && position === journal.head) return seen
            await journal.changedSince(position, stop.signal).catch(() => undefined)
          }
        }
        const followers = [[a.id], [b.id, c.id], [a.id, b.id, c.id]]
        const seen = followers.map(follow)
        const all: Entry[] = []
        for (let round = 0; round < 300; round++) {
          const of = records[Math.floor(random() * 3)] ?? a
          const batch = Array.from({ length: 1 + Math.floor(random() * 3) }, () => entry(of))
          all.push(...batch)
          journal.append({ entries: batch })
          await pause(random)
        }
        await journal.durable(asSeq(next - 1))
        stop.abort()
        for (const [i, chosen] of followers.entries())
          expect(await seen[i]).toEqual(seqs(all.filter(e => chosen.includes(e.stream))))
      })
    })

    describe('items', () => {
      it('walks marked entries backward between two positions, with what replaces the list', async () => {
        const [w, v] = [await stream('w'), await stream('v')]
        const made = [
          replacing(w),
          entry(w, { mark: true }),
          entry(w),
          entry(v, { mark: true }),
          replacing(w),
          entry(w, { mark: true }),
          entry(w, { mark: true }),
          entry(w),
        ]
        await commit(made)
        const marks = async (before: number, from: number, limits = LIMITS) =>
          seqs(await journal.readMarks(w.id, asSeq(before), asSeq(from), limits))
        expect(await marks(100, 1)).toEqual([7, 6, 5, 2, 1])
        expect(await marks(7, 5)).toEqual([6, 5])
        expect(await marks(7, 6)).toEqual([6])
        expect(await marks(100, 1, { maxRows: 2, maxBytes: 1e6 })).toEqual([7, 6])
        expect(await marks(100, 1, { maxRows: 9, maxBytes: 1 })).toEqual([7])
        expect(await marks(5, 5)).toEqual([])
      })

      it('reads the entries of one item, all or the marked ones, page by page', async () => {
        const [w, v] = [await stream('w'), await stream('v')]
        const item = { seq: asSeq(1), index: 0 }
        const other = { seq: asSeq(1), index: 1 }
        await commit([
          entry(w, { context: { item }, mark: true }),
          entry(w, { context: { item } }),
          entry(w, { context: { item: other }, mark: true }),
          entry(w, { context: { item } }),
          entry(v, { context: { item: { seq: asSeq(5), index: 0 } } }),
          entry(w, { context: { item }, mark: true }),
        ])
        const all = await journal.readItem(w.id, item, asSeq(100), LIMITS)
        expect(seqs(all.entries)).toEqual([1, 2, 4, 6])
        expect(all).toMatchObject({ through: 6, atHead: true })
        expect(seqs((await journal.readItem(w.id, item, asSeq(5), LIMITS)).entries)).toEqual([1, 2, 4])
        expect(seqs((await journal.readItem(w.id, item, asSeq(9), LIMITS, 'marks')).entries)).toEqual([1, 6])
        expect((await journal.readItem(v.id, item, asSeq(9), LIMITS)).entries).toEqual([])
        const two = { maxRows: 2, maxBytes: 1e6 }
        const first = await journal.readItem(w.id, item, asSeq(9), two)
        expect(first).toMatchObject({ through: 2, atHead: false })
        expect(
          seqs((await journal.readItem(w.id, item, asSeq(9), two, 'all', first.through)).entries),
        ).toEqual([4, 6])
      })

      it('finds the newest entry that replaces the list at or before a position', async () => {
        const w = await stream('w')
        await commit([entry(w), replacing(w), entry(w), replacing(w)])
        const found = async (through: number) =>
          (await journal.readReplacing(w.id, asSeq(through)))?.seq ?? null
        expect(await Promise.all([1, 2, 3, 4, 99].map(found))).toEqual([null, 2, 2, 4, 4])
      })
    })

    describe('checkpoints', () => {
      it('keeps the newest two of a stream', async () => {
        const w = await stream('w')
        const checkpoint = (seq: Seq, state: string) => ({ stream: w.id, seq, version: 3, state })
        for (let i = 0; i < 4; i++) {
          const one = entry(w)
          await commit([one], { checkpoints: [checkpoint(one.seq, `{"n":${i}}`)] })
        }
        const read = (through: number) => journal.readCheckpoint(w.id, asSeq(through))
        expect(await read(99)).toEqual({ stream: w.id, seq: 4, version: 3, state: '{"n":3}' })
        expect(await read(3)).toMatchObject({ seq: 3, state: '{"n":2}' })
        expect(await read(2)).toBeNull()
        await reopen()
        expect(await read(99)).toMatchObject({ seq: 4 })
      })

      it('refuses one beyond its bound', async () => {
        const w = await stream('w')
        const checkpoint = { stream: w.id, seq: asSeq(1), version: 1, state: `"${'x'.repeat(1024 * 1024)}"` }
        expect(() => journal.append({ entries: [], checkpoints: [checkpoint] })).toThrow()
      })
    })

    describe('a restart', () => {
      it('goes on behind everything that was used, under a generation of its own', async () => {
        const w = await stream('w')
        const made = Array.from({ length: 30 }, () => entry(w))
        journal.append({ entries: made })
        const { keys, generations } = journal
        await reopen()
        expect(journal.head).toBe(30)
        expect(journal.firstSeq).toBe(31)
        expect(journal.keys).toEqual(keys)
        expect(journal.generations).toHaveLength(2)
        expect(journal.generations[0]).toEqual(generations[0])
        expect(journal.generations[1]).toMatchObject({ first: 31 })
        expect(journal.generations[1]?.id).not.toBe(generations[0]?.id)
        expect(await readAll([w.id], asSeq(0))).toEqual(made)
        await commit([entry(w)])
        expect(journal.head).toBe(31)
      })

      it('still knows what is repeated', async () => {
        const w = await stream('w')
        await commit([entry(w, { eventId: 'a' })])
        await reopen()
        await commit([entry(w, { eventId: 'a' }), entry(w, { eventId: 'b' })])
        expect((await readAll([w.id], asSeq(0))).map(e => e.eventId)).toEqual(['a', 'b'])
      })

      it('never uses a seq again, even where everything was deleted', async () => {
        const w = await stream('w')
        await commit([entry(w), entry(w), entry(w)])
        await journal.purge(w.id)
        await reopen()
        expect(journal.firstSeq).toBe(4)
        await reopen()
        expect(journal.firstSeq).toBe(4)
        expect(journal.generations.map(g => g.first)).toEqual([1, 4, 4])
      })
    })

    describe('retention', () => {
      /** Turns of ten entries, each with a checkpoint at its end; the first entry of all replaces the list. */
      const turns = async (of: StreamRecord, times: readonly number[], open = false): Promise<void> => {
        for (const [i, time] of times.entries()) {
          const made = Array.from({ length: 10 }, (_, k) =>
            i === 0 && k === 0 ? replacing(of, { time }) : entry(of, { time }),
          )
          const seq = made.at(-1)?.seq ?? asSeq(0)
          await commit(made, {
            checkpoints: [{ stream: of.id, seq, version: 1, state: '{}', ...(open && { open: true }) }],
          })
        }
      }
      const lastDeleted = async (of: StreamRecord) =>
        (await journal.streams()).find(record => record.id === of.id)?.lastDeleted

      it('deletes nothing without rules', async () => {
        const w = await stream('w')
        await turns(w, [1, 2, 3])
        expect(await journal.retain({}, DAY)).toEqual({ deleted: 0 })
        expect((await journal.stats()).entries).toBe(30)
      })

      it('deletes what is past its age, up to a checkpoint', async () => {
        const w = await stream('w')
        await turns(w, [0, 1_000, 2_000, 3_000])
        expect(await journal.retain({ maxAgeMs: 500, sliceRows: 3 }, 2_000)).toEqual({ deleted: 20 })
        expect(await lastDeleted(w)).toBe(20)
        expect(await journal.retain({ maxAgeMs: 500 }, 2_000)).toEqual({ deleted: 0 })
        const page = await journal.readAfter([w.id], asSeq(5), LIMITS)
        expect(seqs(page.entries)[0]).toBe(21)
        expect(page.expired).toEqual([w.id])
        expect((await journal.readAfter([w.id], asSeq(20), LIMITS)).expired).toBeUndefined()
        expect(await journal.readReplacing(w.id, asSeq(99))).toBeNull()
        expect(await journal.readEntry(asSeq(20))).toBeNull()
      })

      it('never cuts where a block is open', async () => {
        const w = await stream('w')
        await turns(w, [0, 1_000, 2_000], true)
        expect(await journal.retain({ maxAgeMs: 500 }, 2_000)).toEqual({ deleted: 0 })
      })

      it('leaves of a stream that is all past the age what was deleted, and nothing else', async () => {
        const [w, v] = [await stream('w'), await stream('v')]
        await turns(w, [0, 1_000], true)
        await turns(v, [DAY])
        expect(await journal.retain({ maxAgeMs: 1_000 }, DAY)).toEqual({ deleted: 20 })
        expect(await lastDeleted(w)).toBe(20)
        expect(await journal.readCheckpoint(w.id, asSeq(99))).toBeNull()
        expect(await readAll([w.id], asSeq(20))).toEqual([])
        expect(await readAll([v.id], asSeq(0))).toHaveLength(10)
      })

      it('deletes the oldest past a count, and keeps the newest list with all that follows it', async () => {
        const [w, v] = [await stream('w'), await stream('v')]
        await turns(w, [1, 1, 1])
        await turns(v, [1, 1])
        await turns(w, [1, 1])
        expect(await journal.retain({ maxEntries: 55, sliceRows: 7 }, DAY)).toEqual({ deleted: 20 })
        expect(await lastDeleted(w)).toBe(20)
        // Only what lies before the newest list of w may go; v has one list.
        expect(await journal.retain({ maxEntries: 1, sliceRows: 7 }, DAY)).toEqual({ deleted: 10 })
        expect(await lastDeleted(w)).toBe(50)
        expect(await lastDeleted(v)).toBe(0)
        expect((await journal.readReplacing(w.id, asSeq(999)))?.seq).toBe(51)
        expect(await journal.retain({ maxEntries: 1 }, DAY)).toEqual({ deleted: 0 })
      })

      it('deletes the oldest past a size, of one Runtime alone where it is told so', async () => {
        const [w, v] = [await stream('w', 'one'), await stream('v', 'two')]
        await turns(w, [1])
        await turns(v, [1])
        await turns(w, [1])
        await turns(v, [1])
        expect(await journal.retain({ maxBytes: 1, runtime: 'two' }, DAY)).toEqual({ deleted: 10 })
        expect(await lastDeleted(w)).toBe(0)
        expect(await lastDeleted(v)).toBe(30)
      })

      it('loses nothing of what is committed meanwhile', async () => {
        const w = await stream('w')
        await turns(w, [0, 0, 0, 0, 0])
        const retaining = journal.retain({ maxAgeMs: 1, sliceRows: 1 }, DAY)
        const made = [replacing(w, { time: DAY })]
        journal.append({ entries: made })
        for (let i = 0; i < 20; i++) {
          const one = entry(w, { time: DAY })
          made.push(one)
          journal.append({ entries: [one] })
          await pause(random)
        }
        await retaining
        await journal.durable(asSeq(next - 1))
        expect(seqs(await readAll([w.id], asSeq(50)))).toEqual(seqs(made))
      })

      it('erases a stream on request', async () => {
        const [w, v] = [await stream('w'), await stream('v')]
        await turns(w, [DAY, DAY], true)
        await turns(v, [DAY])
        const frame = { time: 1, cause: 'malformed', bytes: 3, body: 'abc' } as const
        await journal.quarantine({ ...frame, stream: w.id })
        await journal.quarantine({ ...frame, stream: v.id })
        await journal.purge(w.id)
        expect(await lastDeleted(w)).toBe(20)
        expect(await readAll([w.id], asSeq(20))).toEqual([])
        expect(await journal.readCheckpoint(w.id, asSeq(99))).toBeNull()
        expect((await journal.readQuarantine(9)).map(one => one.stream)).toEqual([v.id])
        expect(await readAll([v.id], asSeq(0))).toHaveLength(10)
        await commit([entry(w)])
        expect(seqs(await readAll([w.id], asSeq(20)))).toEqual([31])
      })
    })

    describe('the quarantine', () => {
      it('gives back rejected frames, newest first', async () => {
        const w = await stream('w')
        for (let i = 0; i < 3; i++)
          await journal.quarantine({
            stream: w.id,
            time: i,
            cause: 'too_large',
            bytes: 9_000_000,
            body: `frame ${i}`,
          })
        const kept = await journal.readQuarantine(2)
        expect(kept.map(one => one.body)).toEqual(['frame 2', 'frame 1'])
        expect(kept[0]).toMatchObject({ stream: w.id, time: 2, cause: 'too_large', bytes: 9_000_000 })
        expect((await journal.stats()).quarantined).toBe(3)
      })

      it('keeps a bounded part of a body', async () => {
        const w = await stream('w')
        await journal.quarantine({
          stream: w.id,
          time: 1,
          cause: 'too_large',
          bytes: 1e7,
          body: 'x'.repeat(1e7),
        })
        expect((await journal.readQuarantine(1))[0]?.body.length).toBeLessThanOrEqual(64 * 1024)
      })

      it('ends with the age', async () => {
        const w = await stream('w')
        for (const time of [0, DAY])
          await journal.quarantine({ stream: w.id, time, cause: 'binary', bytes: 1, body: '' })
        await journal.retain({ maxAgeMs: 1_000 }, DAY)
        expect((await journal.readQuarantine(9)).map(one => one.time)).toEqual([DAY])
      })
    })

    describe('closing', () => {
      it('commits what is queued, then refuses everything and lets go of all who wait', async () => {
        const w = await stream('w')
        const { signal } = new AbortController()
        const last = entry(w)
        opened.journal.append({ entries: [last] })
        const durable = opened.journal.durable(last.seq)
        const waits = [opened.journal.changedSince(asSeq(99), signal), opened.journal.durable(asSeq(99))]
        const settled = Promise.allSettled(waits)
        await journal.close()
        await durable
        for (const result of await settled)
          expect(result).toMatchObject({ status: 'rejected', reason: { code: 'journal_closed' } })
        expect(() => journal.append({ entries: [entry(w)] })).toThrow(
          expect.objectContaining({ code: 'journal_closed' }),
        )
        await expect(stream('other')).rejects.toMatchObject({ code: 'journal_closed' })
        await journal.close()
      })
    })
  })
}
