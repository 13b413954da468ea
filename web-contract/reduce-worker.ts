/** One worker's envelopes into its state. Pure and total: no envelope makes it throw. */
import type { EnvelopeData } from './frames.ts'
import { type Inner, ITEM_KINDS, innermost, receiptsInItem, streamOf } from './item-place.ts'
import { appendText, cutAt, type Leaf, settleText, withReceipts } from './item-text.ts'
import { record, str } from './json-values.ts'
import type {
  CommandOutput,
  InternalWorker,
  Item,
  OpenBlockKind,
  OpenCall,
  Segment,
  ToolResult,
  WorkerState,
} from './state.ts'

const INTERNAL_WORKERS_MAX = 64

export const emptyWorkerState = (): WorkerState => ({
  status: null,
  items: [],
  open: { blocks: [], calls: [] },
  internal_workers: [],
})

/** One envelope into one worker's state. An event that is not known becomes an item, never an error. */
export function reduceWorker(state: WorkerState, envelope: EnvelopeData): WorkerState {
  const next: WorkerState = { ...state }
  for (const [i, { block, text }] of (envelope.tails ?? []).entries())
    endBlock(next, block, { text, cut: envelope.cut?.find(c => c.at === `/tails/${i}/text`) }, envelope.time)
  if (envelope.removes !== undefined) removeItems(next, envelope.removes)
  const inner = innermost(envelope)
  for (const worker of inner.workers) if (worker.session_id !== '') noteInternalWorker(next, worker)
  return applyEvent(next, { envelope, internal: inner.workers.at(-1)?.session_id || undefined, ...inner })
}

function removeItems(state: WorkerState, ids: readonly string[]): void {
  const gone = new Set(ids)
  state.items = state.items.filter(item => !gone.has(item.id))
}

interface Step extends Inner {
  readonly envelope: EnvelopeData
  /** Session id of the internal worker it happened in. */
  readonly internal: string | undefined
}

/** Changes the draft it is given and returns it. */
function applyEvent(state: WorkerState, step: Step): WorkerState {
  const { event, data } = step
  switch (event) {
    case 'block_end':
      return state
    case 'user_message': {
      const segments = (Array.isArray(data.segments) ? data.segments : []) as Segment[]
      return put(state, step, 'user_message', old => ({ ...old, segments }))
    }
    case 'system_item':
      return put(state, step, 'system', old => ({ ...old, item: record(data.item) }))
    case 'system_prompt':
      return put(state, step, 'system_prompt', old => ({ ...old, text: str(data.text) }))
    case 'text_delta':
      return growText(state, step, 'text')
    case 'thinking_start':
    case 'thinking_delta':
      return growText(state, step, 'thinking')
    case 'text_done':
      return finishText(state, step, 'text')
    case 'thinking_done':
      return finishText(state, step, 'thinking')
    case 'tool_call_start':
    case 'tool_call_done':
      // The block is named only while the call waits for its result.
      openCall(state, step)
      return put(state, step, 'tool_call', old => ({
        ...old,
        ...(data.id !== undefined && { call: str(data.id) }),
        ...(data.name !== undefined && { name: str(data.name) }),
        ...(data.arguments !== undefined && { arguments: str(data.arguments) }),
      }))
    case 'tool_result': {
      const { id, ...rest } = data
      const result = rest as ToolResult
      return put(state, step, 'tool_call', old => ({
        ...old,
        ...(id !== undefined && { call: str(id) }),
        result,
      }))
    }
    case 'command':
      return applyCommand(state, step)
    case 'error':
      return put(state, step, 'error', old => ({
        ...old,
        ...(data.code !== undefined && { code: str(data.code) }),
        ...(data.message !== undefined && { message: str(data.message) }),
      }))
    case 'status':
      return setStatus(state, step, data.status === undefined ? null : str(data.status))
    case 'shutdown':
      return setStatus(state, step, 'stopped')
    case 'usage':
      if (step.internal === undefined) state.usage = data
      return state
    case 'greeting':
      if (step.internal === undefined) state.greeting = data
      return state
    case 'internal_worker_removed': {
      const gone = str(record(data.worker).session_id)
      state.internal_workers = state.internal_workers.filter(w => w.session_id !== gone)
      return state
    }
    default: {
      const kind = ITEM_KINDS.get(event) === 'notice' ? 'notice' : 'unsupported'
      return put(state, step, kind, old => ({ ...old, event, data }))
    }
  }
}

type ItemOf<K extends Item['kind']> = Extract<Item, { kind: K }>

const FRESH = {
  user_message: { segments: [] },
  text: { text: '' },
  thinking: { text: '' },
  tool_call: {},
  system: { item: {} },
  system_prompt: { text: '' },
  error: {},
  notice: { event: '', data: {} },
  unsupported: { event: '', data: {} },
} satisfies { [K in Item['kind']]: Omit<ItemOf<K>, 'id' | 'kind' | 'time'> }

/**
 * Begins or changes the item that the envelope names. An item that lies before the window (neither known
 * nor begun here) is left alone: the pages behind `earlier` hold it. So is one of another kind.
 * `grown` is a place whose cut the change has already settled.
 */
function put<K extends Item['kind']>(
  state: WorkerState,
  step: Step,
  kind: K,
  change: (item: ItemOf<K>) => ItemOf<K>,
  grown?: string,
): WorkerState {
  const { envelope, internal } = step
  if (envelope.item === undefined) return state
  const index = lastIndexOf(state.items, envelope.item)
  if (index < 0 && envelope.begins !== true) return state
  const fresh = { id: envelope.item, kind, time: envelope.time, ...FRESH[kind] }
  const old = (index < 0 ? fresh : state.items[index]) as ItemOf<K>
  if (old.kind !== kind) return state
  const changed: ItemOf<K> = {
    ...change(old),
    time: envelope.time,
    ...(internal !== undefined && { internal }),
  }
  const cut = receiptsInItem(envelope.cut, step, kind).filter(c => c.at !== grown)
  const withheld = receiptsInItem(envelope.withheld, step, kind)
  const item = cut.length + withheld.length > 0 ? withReceipts(changed, withheld, cut) : changed
  state.items = index < 0 ? [...state.items, item] : state.items.with(index, item)
  return state
}

function growText(state: WorkerState, step: Step, kind: 'text' | 'thinking'): WorkerState {
  openBlock(state, step, kind)
  return put(state, step, kind, old => grow(old, kind, leafOf(step, '/text', step.data.text)), '/text')
}

function finishText(state: WorkerState, step: Step, kind: 'text' | 'thinking'): WorkerState {
  if (step.envelope.block !== undefined) closeBlock(state, step.envelope.block)
  return put(
    state,
    step,
    kind,
    old => {
      const known = { text: old.text, cut: cutAt(old, '/text') }
      const { text, cut } = settleText(known, leafOf(step, '/text', step.data.text), '/text')
      return withReceipts({ ...old, text }, [], cut === undefined ? [] : [cut], ['/text'])
    },
    '/text',
  )
}

const leafOf = (step: Step, path: string, text: unknown): Leaf => ({
  text: str(text),
  cut: step.envelope.cut?.find(c => c.at === step.base + path),
})

/** Appends to the text of the item that a block of this kind writes to. */
function grow<I extends Item>(item: I, kind: OpenBlockKind, leaf: Leaf): I {
  const output = kind === 'stdout' || kind === 'stderr'
  const at = output ? `/command/${kind}` : '/text'
  const holder: Record<string, unknown> = output
    ? record((item as { command?: CommandOutput }).command)
    : { ...item }
  const field = output ? kind : 'text'
  const { text, cut } = appendText({ text: str(holder[field]), cut: cutAt(item, at) }, leaf, at)
  const grown = output ? { ...item, command: { ...holder, [field]: text } } : { ...item, text }
  return cut === undefined ? grown : withReceipts(grown, [], [cut])
}

function applyCommand(state: WorkerState, step: Step): WorkerState {
  const event = record(step.data.event)
  const stream = streamOf(step)
  if (event.kind === 'output') {
    openBlock(state, step, stream)
    const leaf = leafOf(step, '/event/content', event.content)
    return put(state, step, 'tool_call', old => grow(old, stream, leaf), `/command/${stream}`)
  }
  return put(state, step, 'tool_call', old => ({
    ...old,
    command: {
      ...old.command,
      ...(event.status !== undefined && { status: str(event.status) }),
      ...(event.exit_code !== undefined && { exit_code: event.exit_code as number | null }),
    },
  }))
}

function openBlock(state: WorkerState, step: Step, kind: OpenBlockKind): void {
  const { block, item } = step.envelope
  if (block === undefined || item === undefined) return
  if (state.open.blocks.some(b => b.block === block)) return
  const opened = { block, item, kind, ...(step.internal !== undefined && { internal: step.internal }) }
  state.open = { ...state.open, blocks: [...state.open.blocks, opened] }
}

function openCall(state: WorkerState, step: Step): void {
  const { block, item } = step.envelope
  if (block === undefined || item === undefined) return
  const { id, name } = step.data
  const call: OpenCall = {
    block,
    item,
    ...(id !== undefined && { call: str(id) }),
    ...(name !== undefined && { name: str(name) }),
    ...(step.internal !== undefined && { internal: step.internal }),
  }
  const { calls } = state.open
  const index = calls.findIndex(c => c.block === block)
  // In its place: calls stand in the order in which they began.
  const next = index < 0 ? [...calls, call] : calls.with(index, { ...calls[index], ...call })
  state.open = { ...state.open, calls: next }
}

function closeBlock(state: WorkerState, block: string): void {
  const blocks = state.open.blocks.filter(b => b.block !== block)
  const calls = state.open.calls.filter(c => c.block !== block)
  if (blocks.length !== state.open.blocks.length || calls.length !== state.open.calls.length)
    state.open = { blocks, calls }
}

function endBlock(state: WorkerState, block: string, leaf: Leaf, time: number): void {
  const open = state.open.blocks.find(b => b.block === block)
  closeBlock(state, block)
  if (open === undefined || leaf.text === '') return
  const index = lastIndexOf(state.items, open.item)
  const old = state.items[index]
  if (old !== undefined) state.items = state.items.with(index, { ...grow(old, open.kind, leaf), time })
}

function setStatus(state: WorkerState, step: Step, status: string | null): WorkerState {
  if (step.internal === undefined) state.status = status
  else if (status !== null) noteInternalWorker(state, { session_id: step.internal, status })
  return state
}

function noteInternalWorker(state: WorkerState, seen: InternalWorker): void {
  const index = state.internal_workers.findIndex(w => w.session_id === seen.session_id)
  const old = state.internal_workers[index]
  if (old === undefined) {
    state.internal_workers = [...state.internal_workers, seen].slice(-INTERNAL_WORKERS_MAX)
    return
  }
  const news = (Object.keys(seen) as (keyof InternalWorker)[]).some(key => old[key] !== seen[key])
  if (news) state.internal_workers = state.internal_workers.with(index, { ...old, ...seen })
}

function lastIndexOf(items: readonly Item[], id: string): number {
  for (let i = items.length - 1; i >= 0; i--) if (items[i]!.id === id) return i
  return -1
}
