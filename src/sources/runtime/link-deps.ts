import type { Clock } from '../../lib/clock.ts'
import type { Slots } from '../../lib/slots.ts'
import type { SourceEvents, SourceSink } from '../source.ts'
import type { Dialects } from './dialects.ts'
import type { RuntimeLimits } from './limits.ts'
import type { Pressure } from './pressure.ts'
import type { StatusBoard } from './status-board.ts'

/** What the links of one Runtime share. */
export interface LinkDeps {
  readonly runtime: string
  readonly url: string
  readonly token?: string
  readonly sink: SourceSink
  readonly events: SourceEvents
  readonly limits: RuntimeLimits
  readonly clock: Clock
  readonly random: () => number
  readonly newConnectionId: () => string
  readonly dialects: Dialects
  readonly slots: Slots
  readonly pressure: Pressure
  readonly status: StatusBoard
}
