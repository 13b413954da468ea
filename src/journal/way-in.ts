import type { ResetReason } from '@shoji/web-contract'
import type { ProvenEvent } from './continuity/last-events.ts'
import type { Envelope } from './entry.ts'
import type { QuarantinedFrame, StreamRecord } from './journal.ts'
import type { OpenState } from './open-state.ts'

export interface Beginning {
  readonly reason: ResetReason
  readonly dialect: 'events-ws' | 'protocol-ws'
  readonly followed: boolean
}

/** One worker's way in. `open` is what is open after everything handed in so far, durable or not. */
export interface StreamWriter {
  readonly record: StreamRecord
  readonly open: OpenState
  readonly known: boolean
  profileIs(profile: string | null): void
  begin(snapshot: Envelope, beginning: Beginning): void
  proof(): Promise<Proof | null>
  macOf(payload: string): string
  holdAgainst(snapshot: Envelope): { comparison: 'same' | 'more' | 'differs'; empty: boolean; status: string }
  resyncDue(): void
  accept(envelope: Envelope): void
  reject(frame: Omit<QuarantinedFrame, 'stream'>): void
  closed(resumable: boolean): void
  stopped(time: number): void
  readonly resync: { readonly due: boolean; readonly idle: boolean; readonly version: number }
  onResync(listener: (() => void) | null): void
  resyncWith(
    snapshot: Envelope,
  ):
    | { outcome: 'same' | 'adopted' | 'thrown_away' }
    | { outcome: 'differs'; reason: 'upstream_resynced' | 'compacted' }
}

interface Proof {
  readonly events: readonly ProvenEvent[]
  readonly snapshot: { readonly cursor: string; readonly mac: string } | null
  readonly status: string | null
  readonly saysNothing: boolean
}
