import { expect, it } from 'vitest'
import {
  loadRecording,
  type RecordedConnection,
  type Recording,
} from '../../src/embedded-runtime/recording.ts'
import { compareSaid } from '../../src/journal/continuity/compare-said.ts'
import { isDistinctive } from '../../src/journal/continuity/distinctive.ts'
import { type Said, saysNothing } from '../../src/journal/continuity/said.ts'
import { asText } from '../../src/lib/json.ts'
import {
  judgeOverlap,
  type OverlapVerdict,
  type Reconnection,
  STORED_EVENTS,
  type Stored,
  type StoredEvent,
} from '../../src/sources/runtime/overlap.ts'
import { type Happening, happeningsOf, listOf, mac, replay } from './_said-walk.ts'

/** Recorded reconnects, judged: what an earlier connection heard is what is stored. */
const directory = new URL('../recordings/', import.meta.url).pathname
const load = (name: string): Promise<Recording> => loadRecording(directory, name)

const id = (n: number): string => `wo_${n.toString(16).padStart(16, '0')}`

const connectionOf = (recording: Recording, conn: number): RecordedConnection => {
  const found = recording.connections.find(c => c.conn === conn)
  if (found === undefined) throw new Error(`${recording.name} has no connection ${conn}`)
  return found
}

interface Known {
  readonly stored: Stored
  readonly said: Said
}

/** What is stored after a connection, or after the first `events` of it. */
function storedAfter(recording: Recording, conn: number, through = Number.POSITIVE_INFINITY): Known {
  const [snapshot, ...all] = happeningsOf(connectionOf(recording, conn))
  const heard = all.slice(0, through)
  const { said } = listOf('snapshot', snapshot!.data)
  replay(said, heard)
  const events = heard.slice(-STORED_EVENTS).map(
    ({ cursor, eventId, payload, event, data }): StoredEvent => ({
      cursor,
      eventId,
      mac: mac(payload),
      distinctive: isDistinctive(event, data),
    }),
  )
  const status = heard.findLast(({ event }) => event === 'status') ?? snapshot!
  const only = { cursor: snapshot!.cursor, mac: mac(snapshot!.payload) }
  return {
    said,
    stored: {
      events,
      snapshot: events.length === 0 ? only : null,
      status: asText(status.data.status),
      saysNothing: saysNothing(said),
    },
  }
}

type Frames = (heard: readonly Happening[]) => readonly Happening[]
const soon: Frames = heard => heard

/** What came on a connection up to its fence. `frames` chooses, where the driver stayed longer than that. */
function reconnection(
  recording: Recording,
  conn: number,
  said: Said,
  asked: Reconnection['asked'] = 'oldest',
  frames: Frames = soon,
): Reconnection {
  const connection = connectionOf(recording, conn)
  const [snapshot, ...heard] = happeningsOf(connection)
  const list = listOf('snapshot', snapshot!.data)
  const diagnostic = connection.frames.map(f => /"kind":"diagnostic".*?"code":"([^"]*)"/.exec(f.text)?.[1])
  return {
    asked,
    snapshot: {
      cursor: snapshot!.cursor,
      mac: mac(snapshot!.payload),
      status: asText(snapshot!.data.status),
      comparison: compareSaid(said, list, mac).verdict,
      empty: saysNothing(list.said),
    },
    frames: frames(heard).map(({ cursor, eventId, payload }) => ({ cursor, eventId, mac: mac(payload) })),
    diagnostic: diagnostic.find(code => code !== undefined) ?? null,
  }
}

/** Only the part of a backlog that follows a cursor: what the Runtime sends to whom asks from it. */
const after =
  (cursor: string): Frames =>
  heard =>
    heard.filter(h => h.cursor > cursor)

const proven = (firstNew: number): OverlapVerdict => ({ verdict: 'proven', firstNew })
const not = (reason: string): object => ({ verdict: 'not_proven', reason })

it('reconnect-good-cursor: a run that nobody heard follows the overlap, and is new', async () => {
  const recording = await load('reconnect-good-cursor')
  const { stored, said } = storedAfter(recording, 1)
  const oldest = stored.events[0]!.cursor
  expect(oldest).toBe(id(0x0c))
  // Connection 4 asked from 0f; what it got, it got from there on.
  const from = { ...stored, events: stored.events.slice(3) }
  expect(judgeOverlap(from, reconnection(recording, 4, said))).toEqual(proven(12))
  // From 1a one event comes again, a status, and the snapshot is of a later moment: too little.
  const late = { ...stored, events: stored.events.slice(-2) }
  expect(judgeOverlap(late, reconnection(recording, 3, said))).toEqual(not('upstream_unverifiable'))
})

it('reconnect-good-cursor: a drop in mid-stream goes on in the same text', async () => {
  const recording = await load('reconnect-good-cursor')
  const { stored, said } = storedAfter(recording, 7)
  expect(stored.status).toBe('running')
  const told = happeningsOf(connectionOf(recording, 7)).filter(h =>
    stored.events.some(e => e.eventId === h.eventId),
  )
  const again: Frames = heard => [...told.slice(1), ...heard]
  expect(judgeOverlap(stored, reconnection(recording, 8, said, 'oldest', again))).toEqual(proven(15))
  // Had nothing come again, the text that follows would be anybody's.
  expect(judgeOverlap(stored, reconnection(recording, 8, said))).toEqual(not('upstream_gap'))
})

it.each([3, 2, 1, 0])('quiet-worker-evicted: no false reset with %i events retained', async retained => {
  const recording = await load('quiet-worker-evicted')
  const { stored, said } = storedAfter(recording, 1)
  const last = happeningsOf(connectionOf(recording, 1)).slice(1)
  const kept: Frames = () => last.slice(last.length - retained)
  const asked = retained === 0 ? 'oldest' : 'zero'
  for (const conn of [3, 5])
    expect(judgeOverlap(stored, reconnection(recording, conn, said, asked, kept))).toEqual(proven(retained))
})

it('quiet-worker-evicted: a refused cursor is asked again from zero, and a run that was missed is a gap', async () => {
  const recording = await load('quiet-worker-evicted')
  const before = storedAfter(recording, 1)
  for (const conn of [6, 7])
    expect(judgeOverlap(before.stored, reconnection(recording, conn, before.said))).toEqual({
      verdict: 'retry_from_zero',
    })
  const all = happeningsOf(connectionOf(recording, 5)).slice(1)
  const zero = { ...reconnection(recording, 6, before.said, 'zero', () => all), diagnostic: null }
  expect(zero.snapshot.comparison).toBe('more')
  expect(judgeOverlap(before.stored, zero)).toEqual(not('upstream_gap'))
})

it('evicted-cursor: refused, and from zero only newer events come', async () => {
  const recording = await load('evicted-cursor')
  // The events before the eviction are not in the file; the same run in another one has the same cursors.
  const { stored, said } = storedAfter(await load('unknown-cursor'), 1)
  expect(judgeOverlap(stored, reconnection(recording, 2, said))).toEqual({ verdict: 'retry_from_zero' })
  expect(judgeOverlap(stored, reconnection(recording, 3, said, 'zero'))).toEqual(not('upstream_gap'))
})

it('unknown-cursor: refused cursors are asked again, and all that is retained proves the resume', async () => {
  const recording = await load('unknown-cursor')
  const { stored, said } = storedAfter(recording, 1)
  for (const conn of [2, 3, 4])
    expect(judgeOverlap(stored, reconnection(recording, conn, said))).toEqual({ verdict: 'retry_from_zero' })
  expect(judgeOverlap(stored, reconnection(recording, 6, said, 'zero'))).toEqual(proven(27))
  // From the last cursor nothing comes, and the snapshot says the same.
  expect(judgeOverlap(stored, reconnection(recording, 5, said))).toEqual(proven(0))
})

it('restart-fs-store: a Runtime that kept its store is the same one', async () => {
  const recording = await load('restart-fs-store')
  const { stored, said } = storedAfter(recording, 1)
  expect(judgeOverlap(stored, reconnection(recording, 4, said))).toEqual(proven(0))
  expect(judgeOverlap(stored, reconnection(recording, 5, said))).toEqual(proven(1))
  expect(judgeOverlap(stored, reconnection(recording, 6, said, 'zero'))).toEqual(proven(27))
  const from = after(stored.events[0]!.cursor)
  expect(judgeOverlap(stored, reconnection(recording, 6, said, 'oldest', from))).toEqual(proven(15))
})

it('restart-fs-store: killed in mid-run, it resumes where it was, and its snapshot is idle', async () => {
  const recording = await load('restart-fs-store')
  const { stored, said } = storedAfter(recording, 8)
  expect(stored.status).toBe('running')
  const told = happeningsOf(connectionOf(recording, 8)).filter(h =>
    stored.events.some(e => e.eventId === h.eventId),
  )
  const resumed = reconnection(recording, 9, said, 'oldest', heard => [...told.slice(1), ...heard])
  expect(resumed.snapshot.status).toBe('idle')
  expect(judgeOverlap(stored, resumed)).toEqual(proven(15))
})

it('restart-fs-store-evicted: an evicted cursor is refused, and after the restart valid again', async () => {
  const recording = await load('restart-fs-store-evicted')
  const { stored, said } = storedAfter(await load('unknown-cursor'), 1)
  for (const conn of [2, 5])
    expect(judgeOverlap(stored, reconnection(recording, conn, said))).toEqual({ verdict: 'retry_from_zero' })
  const lastOnly = { ...stored, events: stored.events.slice(-1) }
  // Asked from the only stored one nothing of ours can come again: the 1,310 newer ones prove nothing.
  expect(judgeOverlap(lastOnly, reconnection(recording, 3, said))).toEqual(not('upstream_gap'))
  const again = happeningsOf(connectionOf(await load('unknown-cursor'), 1)).slice(-15)
  const whole = reconnection(recording, 3, said, 'oldest', heard => [...again, ...heard])
  expect(judgeOverlap(stored, whole)).toEqual(proven(15))
})

it('restart-fs-store-deleted-worker: the worker that is left goes on', async () => {
  const recording = await load('restart-fs-store-deleted-worker')
  const { stored, said } = storedAfter(recording, 1)
  const told = happeningsOf(connectionOf(recording, 1)).slice(-15)
  expect(
    judgeOverlap(
      stored,
      reconnection(recording, 3, said, 'oldest', h => [...told, ...h]),
    ),
  ).toEqual(proven(15))
})

it('restart-fs-store-deleted-worker: cursors that are given twice are known by what they name', async () => {
  const recording = await load('restart-fs-store-deleted-worker')
  const { stored, said } = storedAfter(recording, 2, 27 + 16)
  expect(stored.events[0]!.cursor).toBe(id(0x37))
  expect(judgeOverlap(stored, reconnection(recording, 3, said))).toEqual(not('upstream_restarted'))
})

it('restart-no-store: the old cursor is refused, and then nothing is there', async () => {
  const recording = await load('restart-no-store')
  const { stored, said } = storedAfter(recording, 1)
  expect(judgeOverlap(stored, reconnection(recording, 3, said))).toEqual({ verdict: 'retry_from_zero' })
  const nothing = reconnection(recording, 4, said, 'zero', () => [])
  expect(nothing.snapshot.empty).toBe(true)
  expect(judgeOverlap(stored, nothing)).toEqual(not('upstream_restarted'))
})

it('restart-no-store: an old cursor that is valid again names other events', async () => {
  const recording = await load('restart-no-store')
  const { stored, said } = storedAfter(recording, 1)
  expect(judgeOverlap(stored, reconnection(recording, 5, said))).toEqual(not('upstream_gap'))
  expect(judgeOverlap(stored, reconnection(recording, 6, said))).toEqual(not('upstream_restarted'))
  const from = after(stored.events[0]!.cursor)
  expect(judgeOverlap(stored, reconnection(recording, 4, said, 'oldest', from))).toEqual(
    not('upstream_restarted'),
  )
})

it('restart-no-store: the first three events of two lives are no proof', async () => {
  const recording = await load('restart-no-store')
  // Both lives begin with an input, a status and a turn; only the input differs here, so the same is taken.
  const { stored, said } = storedAfter(recording, 1, 3)
  expect(stored.events.map(e => e.distinctive)).toEqual([false, false, false])
  const [first, ...others] = happeningsOf(connectionOf(recording, 1)).slice(1)
  const secondLife = happeningsOf(connectionOf(recording, 4)).slice(2)
  expect(secondLife.slice(0, 2).map(h => h.payload)).toEqual(others.slice(0, 2).map(h => h.payload))
  const judged = judgeOverlap(
    stored,
    reconnection(recording, 4, said, 'zero', () => [first!, ...secondLife]),
  )
  expect(judged).toEqual(not('upstream_unverifiable'))
})

it('slow-reader: an overrun, and its last cursor refused', async () => {
  const recording = await load('slow-reader')
  const { stored, said } = storedAfter(recording, 2)
  expect(stored.events.at(-1)!.cursor).toBe(id(0x3c9))
  // The frames of the reconnect were not recorded, only that the second is this diagnostic.
  const note = recording.notes.find(n => n.text.includes('cursor_unknown_or_expired'))!
  const code = /"code":"([^"]*)"/.exec(note.text)![1]!
  const refused = { ...reconnection(recording, 2, said, 'oldest', () => []), diagnostic: code }
  expect(judgeOverlap(stored, refused)).toEqual({ verdict: 'retry_from_zero' })
  // A connection that is itself overrun before its fence.
  expect(judgeOverlap(stored, reconnection(recording, 2, said))).toEqual(not('upstream_gap'))
})
