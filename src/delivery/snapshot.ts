import { emptyWorkerState, type InternalWorker, reduceWorker, type WorkerState } from '@shoji/web-contract'
import { asSeq, type Key, type Seq } from '../journal/entry.ts'
import { type OpenState, openBlocks } from '../journal/open-state.ts'
import { asText } from '../lib/json.ts'
import { internalWorkerShape } from '../projection/classes.ts'
import { type Event, levelOf, projectEvent, toldOf } from '../projection/project.ts'
import { walkShape } from '../projection/shape.ts'
import { cutLeaves } from './cut.ts'
import { type Reading, readItems } from './history.ts'
import type { Sight } from './selection.ts'

/** Items in a snapshot stop here, in bytes of JSON; the rest is behind `earlier`. */
const ITEMS_BYTES_MAX = 512 * 1024
/** What stands beside the items must leave them room in the frame. */
const BESIDE = { units: 12 * 1024, values: 1_000 } as const
const NAME_UNITS_MAX = 200

/**
 * The newest page of items plus what is open: a worker as one view has it after `through`. Must be called
 * when everything up to `through` is durable, with the open state of exactly that position.
 */
export async function buildSnapshot(
  reading: Reading,
  sight: Sight,
  at: { through: Seq; open: OpenState; maxItems: number },
): Promise<{ state: WorkerState; earlier: Key | null }> {
  const { open, through, maxItems } = at
  const page = await readItems(reading, sight, {
    before: { seq: asSeq(through + 1), index: 0 },
    through,
    replacing: open.replacing,
    maxItems,
    maxBytes: ITEMS_BYTES_MAX,
  })
  const state = projectOpen(reading, sight, open)
  return { state: { ...state, items: [...page.items] }, earlier: page.earlier }
}

/** Status, greeting, usage, what is open and the internal workers, through the same projector and reducer. */
function projectOpen({ ids }: Reading, sight: Sight, open: OpenState): WorkerState {
  let state = emptyWorkerState()
  const tell = (event: string, data: unknown): void => {
    const told: Event = { event, data: data as Event['data'], time: 0, context: {} }
    const projected = projectEvent(sight.view, ids, sight.place, told)
    if (projected?.frame !== 'envelope') return
    const { value } = cutLeaves(projected.data.data, '', () => '', BESIDE)
    state = reduceWorker(state, { ...projected.data, data: value })
  }
  if (open.greeting !== undefined) tell('greeting', open.greeting)
  if (open.usage !== undefined) tell('usage', open.usage)
  // A stop was told by `shutdown`, which a view that masks the status still shows.
  if (open.status === 'stopped') tell('shutdown', {})
  else if (open.status !== null) tell('status', { status: open.status })
  const { view, place } = sight
  const visible = openBlocks(open).filter(block => toldOf(view, block))
  const where = (scope: string) => (scope === '' ? {} : { internal: ids.safe(scope) })
  return {
    ...state,
    open: {
      blocks: visible.flatMap(block =>
        block.kind === 'call'
          ? []
          : [
              {
                block: ids.of(place.stream, block.key),
                item: ids.of(place.stream, block.item),
                kind: block.kind,
                ...where(block.scope),
              },
            ],
      ),
      calls: visible.flatMap(block =>
        block.kind === 'call'
          ? [
              {
                block: ids.of(place.stream, block.key),
                item: ids.of(place.stream, block.item),
                ...(block.call !== undefined && { call: ids.safe(block.call) }),
                ...callName(sight, block.tool ?? null),
                ...where(block.scope),
              },
            ]
          : [],
      ),
    },
    internal_workers: projectInternalWorkers(sight, open, ids.safe),
  }
}

function callName({ view }: Sight, tool: string | null): { name?: string } {
  if (tool === null) return {}
  const level = levelOf(view, 'tool_call', tool)
  return level === 'drop' ? {} : { name: level === 'mask' ? '' : tool.slice(0, NAME_UNITS_MAX) }
}

function projectInternalWorkers(
  sight: Sight,
  open: OpenState,
  safeId: (id: string) => string,
): InternalWorker[] {
  const { view } = sight
  // Without lifecycle a viewer learns of an internal worker only from what it is shown of its doings.
  if (view.levels.lifecycle === 'drop') return []
  const level = (of: Parameters<typeof levelOf>[1]) => levelOf(view, of, undefined)
  return [...open.scopes].flatMap(([id, scope]) => {
    if (id === '' || scope.worker === undefined) return []
    const worker = walkShape(internalWorkerShape, scope.worker, '', { level, withheld: [], safeId })
    const status = level('lifecycle') === 'mask' ? '' : asText(scope.status)
    const told = { ...(worker as InternalWorker), ...(scope.status !== undefined && { status }) }
    return [cutLeaves(told, '', () => '', { units: NAME_UNITS_MAX, values: 10 }).value]
  })
}
