/**
 * Holds what the frames add up to, and shows only what is whole: between the beginning of a burst and its
 * last frame the state before it stays in view, and a burst that is cut leaves no trace.
 */
import type { Frame } from '../frames.ts'
import { emptyClientState, reduce, workerKey } from '../reduce.ts'
import type { ClientState } from '../state.ts'
import type { FrameName } from '../vocabulary.ts'
import type { Clock } from './types.ts'

const SHOW_EVERY_MS = 16
export const BEGINS_BURST: ReadonlySet<FrameName> = new Set(['hello', 'view', 'reset', 'snapshot'])
/** A `view` may also come alone. What it takes away is not to stay in sight for long. */
const LONE_VIEW_MS = 250
/** Said of the connection or of the viewer's own commands: true whether or not the burst around it arrives. */
const STANDS_ALONE: ReadonlySet<FrameName> = new Set(['command', 'bye'])

export function createStore(clock: Clock, maxItems: number, onState: (state: ClientState) => void) {
  let all = emptyClientState()
  let whole = all
  let shown = all
  let inBurst = false
  let timer: unknown
  let loneView: unknown
  let shownAtMs = 0

  const show = (): void => {
    timer = undefined
    shownAtMs = clock.now()
    if (shown === whole) return
    shown = whole
    onState(whole)
  }

  const showSoon = (): void => {
    if (whole === shown) return
    const waitMs = Math.min(SHOW_EVERY_MS, Math.max(0, shownAtMs + SHOW_EVERY_MS - clock.now()))
    timer ??= clock.setTimeout(show, waitMs)
  }

  const endBurst = (): void => {
    inBurst = false
    whole = all
    showSoon()
  }

  return {
    /** Everything that arrived, half bursts included. */
    get all() {
      return all
    },
    /** The newest state that is whole. */
    get whole() {
      return whole
    },
    /** True where a worker's list has outgrown its limit. */
    apply(frame: Frame): boolean {
      all = reduce(all, frame)
      if (BEGINS_BURST.has(frame.event) || frame.id !== undefined) clock.clearTimeout(loneView)
      if (frame.event === 'view' && !inBurst) loneView = clock.setTimeout(endBurst, LONE_VIEW_MS)
      if (BEGINS_BURST.has(frame.event)) inBurst = true
      // Inside a burst only its last frame has an id.
      if (frame.id !== undefined) inBurst = false
      if (!inBurst) whole = all
      else if (STANDS_ALONE.has(frame.event)) whole = reduce(whole, frame)
      showSoon()
      if (frame.event !== 'envelope') return false
      const { runtime, worker } = frame.data
      return (all.workers[workerKey(runtime, worker)]?.state.items.length ?? 0) > maxItems
    },
    /** An id that came without a frame. */
    moveTo(position: string | null): void {
      all = { ...all, position }
      whole = { ...whole, position }
    },
    /** Back to the last whole state: what follows will repeat the burst. */
    rollBack(): void {
      clock.clearTimeout(loneView)
      all = whole
      inBurst = false
    },
    close(): void {
      clock.clearTimeout(loneView)
      clock.clearTimeout(timer)
    },
  }
}
