import { createHash, createHmac } from 'node:crypto'
import type { WorkerView } from '@shoji/web-contract'
import type { StreamId } from '../journal/entry.ts'
import type { StreamRecord } from '../journal/journal.ts'
import type { Place } from '../projection/project.ts'
import type { CompiledPolicy, Subject, View } from '../projection/view.ts'

/** Which workers a stream speaks of, as it was asked. */
export type Selection =
  | { readonly kind: 'worker'; readonly runtime: string; readonly worker: string }
  | { readonly kind: 'runtime'; readonly runtime: string }
  | { readonly kind: 'workers'; readonly workers: readonly { runtime: string; worker: string }[] }

/** The selection as text: equal text, same selection. */
const selectionKey = (selection: Selection): string => JSON.stringify(selection)

export const selects = (selection: Selection, at: { runtime: string; worker: string }): boolean => {
  switch (selection.kind) {
    case 'worker':
      return selection.runtime === at.runtime && selection.worker === at.worker
    case 'runtime':
      return selection.runtime === at.runtime
    case 'workers':
      return selection.workers.some(w => w.runtime === at.runtime && w.worker === at.worker)
  }
}

/** A worker that exists, with or without anything journaled of it. */
export interface KnownWorker {
  readonly source: 'runtime' | 'mcp'
  readonly runtime: string
  readonly worker: string
  readonly profile: string | null
  readonly stream: StreamRecord | undefined
}

/** One stream that a viewer may see, with the view that decides how. */
export interface Sight {
  readonly place: Place
  readonly record: StreamRecord
  readonly view: View
}

/** Everything that decides what a connection is shown: equal audience, equal bytes. */
export interface Audience {
  readonly selection: Selection
  readonly policy: CompiledPolicy
  readonly subject: Subject
  /** Items in a snapshot. */
  readonly history: number
  /** First 32 bits of the HMAC that ties a cursor to selection, policy and projector. */
  readonly tag: Buffer
  readonly key: string
  readonly streams: Map<StreamId, Sight>
}

/** Raised whenever the same entry and view would give other frames than before. */
const PROJECTOR_VERSION = 1

export function createAudience(
  key: Buffer,
  asked: { selection: Selection; policy: CompiledPolicy; subject: Subject; history: number },
): Audience {
  const subjectHash = asked.policy.subjectHash(asked.subject)
  const text = `${PROJECTOR_VERSION}\n${subjectHash}\n${selectionKey(asked.selection)}`
  const tag = createHmac('sha256', key).update(`tag\n${text}`).digest().subarray(0, 4)
  const group = createHash('sha256').update(`${text}\n${asked.history}`).digest('base64url')
  return { ...asked, tag, key: group, streams: new Map() }
}

/** Ties a page cursor to one stream under one policy, whatever selection it was handed out in. */
export function pageTag(key: Buffer, policy: CompiledPolicy, subject: Subject, stream: StreamId): Buffer {
  const text = `page\n${PROJECTOR_VERSION}\n${policy.subjectHash(subject)}\n${stream}`
  return createHmac('sha256', key).update(text).digest().subarray(0, 4)
}

/** Adds or renews what the audience sees of a stream; false where it may not see it. */
export function admit(audience: Audience, record: StreamRecord): boolean {
  if (!selects(audience.selection, record)) return false
  const { source, runtime, worker, profile } = record
  const view = audience.policy.view(audience.subject, { source, runtime, worker, profile })
  if (!view.observe) {
    audience.streams.delete(record.id)
    return false
  }
  audience.streams.set(record.id, { record, view, place: { stream: record.id, runtime, worker } })
  return true
}

/** A view as its viewer may know it: what it is shown of each class, and what it may do. */
export function viewTold({ runtime, worker }: { runtime: string; worker: string }, view: View): WorkerView {
  const classes = Object.fromEntries(Object.entries(view.levels).filter(([, level]) => level !== 'drop'))
  return { runtime, worker, classes, commands: [...view.commands] }
}

/** What `hello` and `view` tell: hidden and unknown names alike are `not_found`. */
export function viewsOf(audience: Audience, known: readonly KnownWorker[]): WorkerView[] {
  const { selection, policy, subject } = audience
  const tell = (at: { runtime: string; worker: string }): WorkerView => {
    const worker = known.find(k => k.runtime === at.runtime && k.worker === at.worker)
    const view = worker && policy.view(subject, worker)
    if (!view?.observe) return { runtime: at.runtime, worker: at.worker, state: 'not_found' }
    return viewTold(at, view)
  }
  if (selection.kind === 'worker') return [tell(selection)]
  if (selection.kind === 'workers') return selection.workers.map(tell)
  // In an order of their own: a worker that moves within the list is no news.
  return known
    .filter(k => k.runtime === selection.runtime)
    .sort((a, b) => (a.worker < b.worker ? -1 : 1))
    .map(tell)
    .filter(v => !('state' in v))
}
