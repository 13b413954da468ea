import { asRecord, asText } from '../../lib/json.ts'
import type { HeldAgainst, ResumeProof, StreamIngest } from '../source.ts'
import { type Evidence, isStandIn, type Opening } from './opening.ts'
import {
  compareAtFence,
  type FenceAct,
  judgeDiagnostic,
  judgeOverlap,
  type OverlapVerdict,
  type Reconnection,
  type SeenEvent,
} from './overlap.ts'

/** All that a Runtime retains of a worker comes after it. */
const ZERO_CURSOR = 'wo_0000000000000000'

export type ResumeVerdict = OverlapVerdict | { readonly verdict: 'stand_in' }

/** One try to go on where the connection before it ended. */
export interface Resumption extends Opening {
  judge(evidence: Evidence): ResumeVerdict
  /** What the snapshot calls for, once the connection is proven. `followed`: something came behind the overlap. */
  atFence(followed: boolean): FenceAct
}

/**
 * Asks from the oldest stored cursor, or from zero, so that what is stored comes again. Null where there is
 * nothing to ask from. Neither the stream nor the proof is changed by it.
 */
export const resumptionOf = (
  proof: ResumeProof,
  stream: Pick<StreamIngest, 'macOf' | 'holdAgainst'>,
  asked: Reconnection['asked'],
): Resumption | null => {
  const oldest = proof.events[0]?.cursor ?? proof.snapshot?.cursor
  if (oldest === undefined) return null
  const stored = new Set(proof.events.map(event => event.eventId))
  // A MAC is only looked at of what is stored as well.
  const seen = ({ eventId, cursor = '', payload }: Evidence['held'][number]): SeenEvent => ({
    cursor,
    eventId,
    mac: stored.has(eventId) ? stream.macOf(payload) : '',
  })
  let against: HeldAgainst | null = null
  let ours = proof.status
  return {
    first: 'asking',
    cursor: asked === 'zero' ? ZERO_CURSOR : oldest,
    judge({ snapshot, held, diagnostic }): ResumeVerdict {
      if (diagnostic !== null || snapshot === null) return judgeDiagnostic(diagnostic ?? '', asked)
      if (isStandIn(snapshot)) return { verdict: 'stand_in' }
      against = stream.holdAgainst(snapshot)
      const mac = proof.snapshot === null ? '' : stream.macOf(snapshot.payload)
      const judged = judgeOverlap(proof, {
        asked,
        snapshot: { ...against, cursor: snapshot.cursor ?? '', mac },
        frames: held.map(seen),
        diagnostic,
      })
      if (judged.verdict === 'proven') ours = lastStatus(held.slice(judged.firstNew)) ?? ours
      return judged
    },
    atFence(followed) {
      if (against === null) return 'nothing'
      const { status, comparison } = against
      return compareAtFence({ followed, ours, snapshot: status, comparison })
    },
  }
}

const lastStatus = (events: Evidence['held']): string | null => {
  const told = events.findLast(({ parsed }) => asRecord(parsed).event === 'status')
  return told === undefined ? null : asText(asRecord(asRecord(told.parsed).data).status)
}
