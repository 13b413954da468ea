/**
 * How a connection is opened and judged.
 *
 * 1. Nothing of a connection is believed before its fence: the pong to the one ping that is sent when the
 *    snapshot has come. The Runtime reads its socket only after it has written the backlog (R12, R61).
 * 2. The first frame is the snapshot (R12). A connection that begins otherwise is not observed.
 * 3. Between snapshot and fence everything is held, in order, what could not be read included.
 * 4. At the fence the judge looks at the snapshot and at what is held, and its verdict is final.
 * 5. After the fence everything is handed on in the order in which it came.
 * 6. `over` is left by nothing: what still comes out of a buffer is dropped.
 */
import { asRecord } from '../../lib/json.ts'
import type { EndCode } from './ends.ts'

export type State = 'opening' | 'greeting' | 'fencing' | 'believed' | 'over'

export type Happening =
  /** The upgrade was answered with 101, or with anything else. */
  | 'opened'
  | 'refused'
  | 'snapshot'
  | 'event'
  /** A frame that goes into quarantine. */
  | 'unreadable'
  /** A diagnostic frame. */
  | 'farewell'
  /** The pong to the fence's ping. */
  | 'pong'
  /** The time for what is awaited in this state has passed. */
  | 'late'
  /** A frame beyond the hard limit, of which only the length was read. */
  | 'too_large'
  | 'garbled'
  | 'closed'

type Act = 'none' | 'ping' | 'hold' | 'release' | 'hand_on' | 'end'

export interface Step {
  readonly to: State
  readonly act: Act
  /** For `end`: how, where the happening does not say so itself. */
  readonly end?: EndCode
}

const stay = (to: State): Step => ({ to, act: 'none' })
const go = (to: State, act: Act): Step => ({ to, act })
const end = (code: EndCode): Step => ({ to: 'over', act: 'end', end: code })

/** A frame cannot come before the upgrade; if a library says so, the other side speaks something else. */
const impossible = end('refused')

export const STEPS: Readonly<Record<State, Readonly<Record<Happening, Step>>>> = {
  opening: {
    opened: go('greeting', 'none'),
    refused: end('refused'),
    snapshot: impossible,
    event: impossible,
    unreadable: impossible,
    farewell: impossible,
    pong: impossible,
    late: end('unreachable'),
    too_large: impossible,
    garbled: end('unreachable'),
    closed: end('unreachable'),
  },
  greeting: {
    opened: stay('greeting'),
    refused: impossible,
    snapshot: go('fencing', 'ping'),
    event: end('bad_opening'),
    unreadable: end('bad_opening'),
    farewell: end('dismissed'),
    pong: stay('greeting'),
    late: end('no_snapshot'),
    // The first frame is the snapshot, so this one is.
    too_large: end('snapshot_too_large'),
    garbled: end('bad_opening'),
    closed: end('closed'),
  },
  fencing: {
    opened: stay('fencing'),
    refused: impossible,
    snapshot: go('fencing', 'hold'),
    event: go('fencing', 'hold'),
    unreadable: go('fencing', 'hold'),
    farewell: end('dismissed'),
    pong: go('believed', 'release'),
    late: end('no_pong'),
    too_large: end('frame_too_large'),
    garbled: end('garbled'),
    closed: end('closed'),
  },
  believed: {
    opened: stay('believed'),
    refused: impossible,
    snapshot: go('believed', 'hand_on'),
    event: go('believed', 'hand_on'),
    unreadable: go('believed', 'hand_on'),
    farewell: end('dismissed'),
    pong: stay('believed'),
    late: end('silent'),
    too_large: end('frame_too_large'),
    garbled: end('garbled'),
    closed: end('closed'),
  },
  over: {
    opened: stay('over'),
    refused: stay('over'),
    snapshot: stay('over'),
    event: stay('over'),
    unreadable: stay('over'),
    farewell: stay('over'),
    pong: stay('over'),
    late: stay('over'),
    too_large: stay('over'),
    garbled: stay('over'),
    closed: stay('over'),
  },
}

/**
 * What the fence found. `fresh`: the snapshot replaces the list. `stand_in`: the worker is stopped and this
 * is the empty snapshot that the Runtime says in its place (R11); it tells nothing about the history.
 */
export type Verdict = 'fresh' | 'stand_in'

/** Provider that the greeting of a stand-in names. */
const STAND_IN_PROVIDER = 'worker-runtime'

/** `snapshot` is the parsed payload of the snapshot event. */
export const judgeOpening = (snapshot: unknown): Verdict => {
  const { greeting } = asRecord(asRecord(snapshot).data)
  return asRecord(greeting).provider === STAND_IN_PROVIDER ? 'stand_in' : 'fresh'
}
