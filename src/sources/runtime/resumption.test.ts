import { expect, it } from 'vitest'
import type { Envelope } from '../../journal/entry.ts'
import type { HeldAgainst, ResumeProof } from '../source.ts'
import type { Evidence } from './opening.ts'
import { resumptionOf } from './resumption.ts'

const id = (n: number): string => `wo_${n.toString(16).padStart(16, '0')}`

const envelope = (n: number, payload: object): Envelope => ({
  eventId: id(n),
  cursor: id(n),
  payload: JSON.stringify(payload),
  parsed: payload,
  time: 1,
})
const delta = (n: number): Envelope => envelope(n, { event: 'text_delta', data: { text: `text ${n}` } })
const status = (n: number, to: string): Envelope => envelope(n, { event: 'status', data: { status: to } })
const snapshotOf = (provider = 'anthropic'): Envelope =>
  envelope(1, { event: 'snapshot', data: { greeting: { provider } } })

const proofOf = (events: readonly Envelope[], more: Partial<ResumeProof> = {}): ResumeProof => ({
  events: events.map(({ eventId, cursor = '', payload }) => ({
    eventId,
    cursor,
    mac: `mac ${payload}`,
    distinctive: true,
  })),
  snapshot: null,
  status: 'running',
  saysNothing: false,
  ...more,
})

const streamOf = (against: Partial<HeldAgainst> = {}) => {
  const macs: string[] = []
  return {
    macs,
    macOf: (payload: string) => {
      macs.push(payload)
      return `mac ${payload}`
    },
    holdAgainst: (): HeldAgainst => ({ comparison: 'same', empty: false, status: 'idle', ...against }),
  }
}

const evidence = (held: readonly Envelope[], more: Partial<Evidence> = {}): Evidence => ({
  snapshot: snapshotOf(),
  held,
  diagnostic: null,
  ...more,
})

it('asks from the oldest event, from the snapshot where there is none, or from zero', () => {
  const events = [delta(7), delta(8)]
  const snapshot = { cursor: id(5), mac: '' }
  expect(resumptionOf(proofOf(events), streamOf(), 'oldest')?.cursor).toBe(id(7))
  expect(resumptionOf(proofOf(events), streamOf(), 'zero')?.cursor).toBe(id(0))
  expect(resumptionOf(proofOf([], { snapshot }), streamOf(), 'oldest')?.cursor).toBe(id(5))
  expect(resumptionOf(proofOf([]), streamOf(), 'oldest')).toBeNull()
})

it('makes a MAC only of what is stored as well', () => {
  const events = [delta(1), delta(2)]
  const stream = streamOf()
  const held = [delta(2), ...Array.from({ length: 100 }, (_, n) => delta(3 + n))]
  const judged = resumptionOf(proofOf(events), stream, 'oldest')?.judge(evidence(held))
  expect(judged).toEqual({ verdict: 'proven', firstNew: 1 })
  expect(stream.macs).toEqual([delta(2).payload])
})

it('goes on from a snapshot alone by its cursor and its bytes', () => {
  const stream = streamOf()
  const known = snapshotOf()
  const proof = proofOf([], { snapshot: { cursor: id(1), mac: `mac ${known.payload}` } })
  expect(resumptionOf(proof, stream, 'oldest')?.judge(evidence([]))).toMatchObject({ verdict: 'proven' })
  const other = snapshotOf('another')
  expect(resumptionOf(proof, stream, 'oldest')?.judge(evidence([], { snapshot: other }))).toMatchObject({
    verdict: 'not_proven',
  })
})

it('judges a diagnostic by itself, and a stand-in as one unless its cursor was refused', () => {
  const resumption = resumptionOf(proofOf([delta(1), delta(2)]), streamOf(), 'oldest')
  const refused = 'runtime.cursor_unknown_or_expired'
  const standIn = snapshotOf('worker-runtime')
  const judge = (more: Partial<Evidence>) => resumption?.judge(evidence([], more))
  expect(judge({ diagnostic: refused })).toEqual({ verdict: 'retry_from_zero' })
  expect(judge({ diagnostic: refused, snapshot: standIn })).toEqual({ verdict: 'retry_from_zero' })
  expect(judge({ snapshot: standIn })).toEqual({ verdict: 'stand_in' })
  expect(judge({ diagnostic: 'runtime.cursor_malformed', snapshot: null })).toEqual({
    verdict: 'not_proven',
    reason: 'upstream_unverifiable',
  })
})

it('compares the snapshot with what the worker was left at, what followed included', () => {
  const actOf = (held: readonly Envelope[], against: Partial<HeldAgainst>, followed: boolean) => {
    const resumption = resumptionOf(proofOf([delta(1), delta(2)]), streamOf(against), 'oldest')
    expect(resumption?.judge(evidence([delta(2), ...held]))).toMatchObject({ verdict: 'proven' })
    return resumption?.atFence(followed)
  }
  expect(actOf([], { status: 'idle' }, false)).toBe('wait_for_mismatch')
  expect(actOf([], { status: 'running' }, false)).toBe('resync_due')
  expect(actOf([delta(3)], { status: 'idle' }, true)).toBe('wait_for_mismatch')
  expect(actOf([delta(3), status(4, 'idle')], { status: 'idle' }, true)).toBe('nothing')
  expect(actOf([status(3, 'idle'), status(4, 'running')], { status: 'running' }, true)).toBe('nothing')
})

it('calls for nothing before it was judged', () => {
  expect(resumptionOf(proofOf([delta(1)]), streamOf(), 'oldest')?.atFence(false)).toBe('nothing')
})
