/**
 * How a connection is opened and judged.
 *
 * 1. Nothing of a connection is believed before its fence: the pong to the one ping that is sent when the
 *    snapshot has come. The Runtime reads its socket only after it has written the backlog (R12, R61).
 * 2. The first frame is the snapshot (R12). A connection that begins otherwise is not observed.
 * 3. Between snapshot and fence everything is held, in order, what could not be read included.
 * 4. At the fence the connection is judged, and the verdict is final: without a cursor (`opening`, `greeting`,
 *    `fencing`) by its snapshot alone, with one (`asking`, `answering`, `proving`) by what came again.
 * 5. Where a cursor was asked from, a diagnostic before the fence is an answer to it, and judged as the pong is.
 * 6. Only `fresh` and `proven` lead to belief. Everything else is over at its verdict.
 * 7. A glance (`knocking`, `glancing`) shows its snapshot and is over: it is held against the observation that
 *    stands, and needs no fence of its own.
 * 8. After the fence everything is handed on in the order in which it came, on a proven connection without
 *    what came again.
 * 9. `over` is left by nothing: what still comes out of a buffer is dropped.
 */
import type { Envelope } from '../../journal/entry.ts'
import { asRecord } from '../../lib/json.ts'
import type { EndCode } from './ends.ts'
import type { OverlapVerdict } from './overlap.ts'

export type State =
  | 'opening'
  | 'greeting'
  | 'fencing'
  | 'asking'
  | 'answering'
  | 'proving'
  | 'knocking'
  | 'glancing'
  /** For a moment: the judge is asked and its verdict is the next happening. */
  | 'judging'
  | 'believed'
  | 'over'

/**
 * `fresh`: the snapshot replaces the list. `stand_in`: the worker is stopped and this is the empty snapshot
 * that the Runtime says in its place (R11); it tells nothing about the history.
 */
export type Verdict = { readonly verdict: 'fresh' | 'stand_in' | 'glanced' } | OverlapVerdict

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
  | Verdict['verdict']

type Act = 'none' | 'ping' | 'hold' | 'judge' | 'release' | 'hand_on' | 'end'

interface Step {
  readonly to: State
  readonly act: Act
  /** For `end`: how, where the happening does not say so itself. */
  readonly end?: EndCode
}

type Row = Readonly<Record<Happening, Step>>

const stay = (to: State): Step => ({ to, act: 'none' })
const go = (to: State, act: Act): Step => ({ to, act })
const end = (code: EndCode): Step => ({ to: 'over', act: 'end', end: code })

/** A frame cannot come before the upgrade; if a library says so, the other side speaks something else. */
const impossible = end('refused')

/** A verdict that nobody was asked for. */
const unasked = (state: State): Readonly<Record<Verdict['verdict'], Step>> => ({
  fresh: stay(state),
  stand_in: stay(state),
  glanced: stay(state),
  proven: stay(state),
  retry_from_zero: stay(state),
  not_proven: stay(state),
})

const unopened = (state: State, then: State): Row => ({
  opened: go(then, 'none'),
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
  ...unasked(state),
})

const ungreeted = (state: State, then: Step): Row => ({
  opened: stay(state),
  refused: impossible,
  snapshot: then,
  event: end('bad_opening'),
  unreadable: end('bad_opening'),
  farewell: end('dismissed'),
  pong: stay(state),
  late: end('no_snapshot'),
  // The first frame is the snapshot, so this one is.
  too_large: end('snapshot_too_large'),
  garbled: end('bad_opening'),
  closed: end('closed'),
  ...unasked(state),
})

const unfenced = (state: State): Row => ({
  opened: stay(state),
  refused: impossible,
  snapshot: go(state, 'hold'),
  event: go(state, 'hold'),
  unreadable: go(state, 'hold'),
  farewell: end('dismissed'),
  pong: go('judging', 'judge'),
  late: end('no_pong'),
  too_large: end('frame_too_large'),
  garbled: end('garbled'),
  closed: end('closed'),
  ...unasked(state),
})

const still = (state: State): Row => ({
  opened: stay(state),
  refused: stay(state),
  snapshot: stay(state),
  event: stay(state),
  unreadable: stay(state),
  farewell: stay(state),
  pong: stay(state),
  late: stay(state),
  too_large: stay(state),
  garbled: stay(state),
  closed: stay(state),
  ...unasked(state),
})

const answer = go('judging', 'judge')

export const STEPS: Readonly<Record<State, Row>> = {
  opening: unopened('opening', 'greeting'),
  greeting: ungreeted('greeting', go('fencing', 'ping')),
  fencing: unfenced('fencing'),
  asking: unopened('asking', 'answering'),
  answering: { ...ungreeted('answering', go('proving', 'ping')), farewell: answer },
  proving: { ...unfenced('proving'), farewell: answer },
  knocking: unopened('knocking', 'glancing'),
  glancing: ungreeted('glancing', go('judging', 'judge')),
  judging: {
    ...still('judging'),
    closed: end('closed'),
    fresh: go('believed', 'release'),
    proven: go('believed', 'release'),
    stand_in: end('stand_in'),
    glanced: end('glanced'),
    retry_from_zero: end('ask_from_zero'),
    not_proven: end('not_proven'),
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
    ...unasked('believed'),
  },
  over: still('over'),
}

/** What is awaited in a state, and in which time. */
export const AWAITED: Readonly<Record<State, 'upgrade' | 'snapshot' | 'fence' | 'life'>> = {
  opening: 'upgrade',
  asking: 'upgrade',
  knocking: 'upgrade',
  greeting: 'snapshot',
  answering: 'snapshot',
  glancing: 'snapshot',
  fencing: 'fence',
  proving: 'fence',
  judging: 'life',
  believed: 'life',
  over: 'life',
}

/** All that came before the verdict. */
export interface Evidence {
  /** Null where a diagnostic came in its place. */
  readonly snapshot: Envelope | null
  /** Events between snapshot and fence, in order. */
  readonly held: readonly Envelope[]
  /** Code of the diagnostic that came in the place of the fence. */
  readonly diagnostic: string | null
}

/** What a connection is opened for. The judge is asked once at most, and synchronously. */
export interface Opening {
  readonly first: Extract<State, 'opening' | 'asking' | 'knocking'>
  /** The cursor that is asked from. */
  readonly cursor?: string
  judge(evidence: Evidence): Verdict
}

/** Provider that the greeting of a stand-in names. */
const STAND_IN_PROVIDER = 'worker-runtime'

/** Whether it is the empty snapshot of a stopped worker. */
export const isStandIn = (snapshot: Envelope | null): boolean => {
  const { greeting } = asRecord(asRecord(snapshot?.parsed).data)
  return asRecord(greeting).provider === STAND_IN_PROVIDER
}

/** To begin a list with the snapshot. */
export const AFRESH: Opening = {
  first: 'opening',
  judge: ({ snapshot }) => ({ verdict: isStandIn(snapshot) ? 'stand_in' : 'fresh' }),
}

/** To see a snapshot and no more. */
export const glance = (show: (snapshot: Envelope) => void): Opening => ({
  first: 'knocking',
  judge: ({ snapshot }) => {
    if (snapshot !== null) show(snapshot)
    return { verdict: 'glanced' }
  },
})
