import type { BackoffLimits } from './backoff.ts'

const KiB = 1024
const MiB = 1024 * KiB

/** Every bound of the client of one Runtime. */
export interface RuntimeLimits {
  readonly pollMs: number
  readonly connectsAtOnce: number
  /** Connections to running workers. Those beyond it are counted, and connected when a place falls free. */
  readonly connections: number
  /** Rows of a listing that are read; the rest is counted as beyond the limit. */
  readonly listedWorkers: number
  /** Workers asked for before they are listed. */
  readonly wantedAhead: number
  readonly requestMs: number
  readonly bodyBytes: number
  readonly handshakeMs: number
  /** Without a byte after the upgrade, before the snapshot: a first-generation `protocol/ws` never says one. */
  readonly snapshotMs: number
  readonly fenceMs: number
  /** How long a proven resume whose snapshot differs waits for an event before the list is replaced. */
  readonly mismatchMs: number
  /** Between two snapshots that are fetched beside the connection of one worker, at least. */
  readonly resyncEveryMs: number
  readonly pingAfterMs: number
  readonly silentMs: number
  /** Largest frame of any event but a snapshot; larger ones go into quarantine. */
  readonly frameBytes: number
  /** Largest frame at all; a larger one ends its connection before it is read. */
  readonly hardFrameBytes: number
  /** What may come between a snapshot and its fence. */
  readonly heldFrames: number
  readonly heldBytes: number
  /** Of a quarantined frame's body, in characters. */
  readonly quarantineChars: number
  /** How long an error that may be the Runtime's goodbye waits for what follows it. */
  readonly errorHoldMs: number
  /** How long a worker that is no longer listed as running keeps its connection: its last events may be under way. */
  readonly lingerMs: number
  /** A connection that lived so long past its fence starts the backoff anew. */
  readonly steadyMs: number
  readonly retry: BackoffLimits
  /** For what a quick retry would only repeat at a price: a snapshot beyond the hard limit, a worker not found. */
  readonly slowRetry: BackoffLimits
}

export const RUNTIME_LIMITS: RuntimeLimits = {
  pollMs: 5_000,
  connectsAtOnce: 8,
  connections: 1_000,
  listedWorkers: 10_000,
  wantedAhead: 1_000,
  requestMs: 10_000,
  bodyBytes: 8 * MiB,
  handshakeMs: 10_000,
  snapshotMs: 10_000,
  fenceMs: 10_000,
  mismatchMs: 2_000,
  resyncEveryMs: 2_000,
  pingAfterMs: 30_000,
  silentMs: 45_000,
  frameBytes: 8 * MiB,
  hardFrameBytes: 128 * MiB,
  heldFrames: 2_048,
  heldBytes: 16 * MiB,
  quarantineChars: 64 * KiB,
  errorHoldMs: 1_000,
  lingerMs: 12_000,
  steadyMs: 10_000,
  retry: { baseMs: 250, maxMs: 30_000 },
  slowRetry: { baseMs: 60_000, maxMs: 900_000 },
}
