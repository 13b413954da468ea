import type { Class } from '@shoji/web-contract'
import { asArray, asRecord, asText, isRecord, type Json } from '../lib/json.ts'
import { bound, endings, type Happened } from './endings.ts'
import type { Context, Key } from './entry.ts'
import { expandList } from './expand.ts'
import {
  type Call,
  type Command,
  ended,
  endedCall,
  type OpenBlock,
  type OpenState,
  type Scope,
  scoped,
} from './open-state.ts'
import { noteRunItems } from './run-items.ts'

/** An event as the stream told it, with the internal workers around it taken off. */
export interface FlatEvent {
  readonly event: string
  readonly data: Json
  /** Session id of the innermost internal worker; '' for the worker's own. */
  readonly scope: string
}

/** Ids and names that are kept are bounded: what is longer is known by its beginning. */
const NAME_UNITS_MAX = 512
const nameOf = (value: unknown): string => asText(value).slice(0, NAME_UNITS_MAX)

/** Internal workers nest: the innermost event is what happened, and the innermost session is where. */
export function flatten(event: string, data: Json): FlatEvent {
  let scope = ''
  for (let depth = 0; event === 'internal_worker' && isRecord(data.event) && depth < 16; depth++) {
    scope = nameOf(asRecord(data.worker).session_id)
    const inner: Json = data.event
    event = asText(inner.event)
    data = asRecord(inner.data)
  }
  return { event, data, scope }
}

/** Which events replace the list of items. Anything of an internal worker's replaces nothing. */
export function replacesList(event: string, data: Json): boolean {
  if (event === 'snapshot' || event === 'rewind_applied') return true
  if (event !== 'segment_rotated') return false
  const entry = asRecord(data.entry)
  return isRecord(entry.compacted_from) || isRecord(entry.forked_from) || asArray(entry.history).length > 0
}

interface Step extends Happened {
  readonly key: Key
  readonly notKept: readonly Class[] | undefined
}

/**
 * Takes one event into the state and resolves its context: the item and block it touches, the tool behind
 * it, and what it ends. Deterministic: the same events make the same state, at ingest and at a refold.
 * `notKept` names the classes that were removed from it.
 */
export function step(
  state: OpenState,
  event: string,
  data: Json,
  key: Key,
  notKept?: readonly Class[],
): Context {
  const context = resolve(state, event, data, key, notKept)
  return notKept === undefined ? context : { ...context, notKept }
}

function resolve(
  state: OpenState,
  event: string,
  data: Json,
  key: Key,
  notKept: readonly Class[] | undefined,
): Context {
  const flat = flatten(event, data)
  if (flat.scope === '' && replacesList(flat.event, flat.data))
    return replaceList(state, event, data, key, notKept)
  const at: Step = {
    state,
    scope: scopeOf(state, flat.scope),
    scopeId: flat.scope,
    data: flat.data,
    key,
    name: flat.event,
    notKept,
  }
  if (flat.scope !== '') noteWorker(at.scope, event, data)
  const context = touch(at)
  const ends = endings(at)
  const dropped = bound(state, flat.event === 'tool_call_start' || flat.event === 'tool_call_done')
  const all = [...(context.ends ?? []), ...ends, ...dropped]
  const name = flat.event === 'command' ? commandName(flat.data) : flat.event
  const unsays = flat.scope === '' ? noteRunItems(state, { name, data: flat.data }, context) : undefined
  return {
    ...(flat.scope !== '' && { scope: flat.scope }),
    ...context,
    ...(all.length > 0 && { ends: all }),
    ...(unsays !== undefined && { unsays }),
  }
}

function replaceList(
  state: OpenState,
  event: string,
  data: Json,
  key: Key,
  notKept: readonly Class[] | undefined,
): Context {
  const before = { status: state.status, usage: state.usage, greeting: state.greeting }
  const first = state.replacing === 0
  const next = expandList(event, data, key.seq, before, notKept).state
  Object.assign(state, next, { usage: next.usage, greeting: next.greeting })
  state.replacing = key.seq
  return {
    replaces: true,
    ...(first && { first: true as const }),
    ...(event !== 'snapshot' && { carried: before }),
  }
}

function scopeOf(state: OpenState, id: string): Scope {
  let scope = state.scopes.get(id)
  if (scope === undefined) {
    scope = {}
    state.scopes.set(id, scope)
  }
  return scope
}

/** Events that make an item of their own each time. */
const OWN_ITEM: ReadonlySet<string> = new Set([
  'user_message',
  'system_item',
  'system_prompt',
  'error',
  'alert',
  'llm_retry',
  'llm_continuation',
  'compact_failed',
  'memory_worker',
])

/** Events that touch no item, known by name; what is not known is an item of class `unknown`. */
const NO_ITEM: ReadonlySet<string> = new Set([
  'invoke_start',
  'turn_start',
  'turn_end',
  'llm_call_start',
  'llm_call_end',
  'usage',
  'run_end',
  'status',
  'greeting',
  'compact_start',
  'compact_done',
  'shutdown',
  'segment_rotated',
  'rewind_applied',
  'snapshot',
  'internal_worker_removed',
  'rewind_targets',
  'completions',
  'workers_listed',
  'worker_restored',
  'peer_registered',
])

function touch(at: Step): Context {
  switch (at.name) {
    case 'text_delta':
      return growBlock(at, 'text')
    case 'text_done':
      return finishBlock(at, 'text')
    case 'thinking_start':
      return startThinking(at)
    case 'thinking_delta':
      return growBlock(at, 'thinking')
    case 'thinking_done':
      return finishBlock(at, 'thinking')
    case 'tool_call_start':
    case 'tool_call_args_delta':
    case 'tool_call_done':
      return touchCall(at)
    case 'tool_result':
      return touchResult(at)
    case 'command':
      return touchCommand(at)
    case 'status':
      setStatus(at, nameOf(at.data.status))
      return {}
    case 'shutdown':
      setStatus(at, 'stopped')
      return {}
    case 'usage':
      if (at.scopeId === '') at.state.usage = at.data
      return {}
    case 'greeting':
      if (at.scopeId === '') at.state.greeting = at.data
      return {}
    default:
      return NO_ITEM.has(at.name) && !OWN_ITEM.has(at.name) ? {} : { item: at.key, seen: [] }
  }
}

function setStatus(at: Step, status: string): void {
  if (at.scopeId === '') at.state.status = status
  else at.scope.status = status
}

/** What is told of an internal worker around its events: the innermost telling is its own. */
function noteWorker(scope: Scope, event: string, data: Json): void {
  let worker: Json = {}
  while (event === 'internal_worker' && isRecord(data.event)) {
    worker = asRecord(data.worker)
    const inner: Json = data.event
    event = asText(inner.event)
    data = asRecord(inner.data)
  }
  scope.worker = worker
}

const note = (seen: string[], name: string): string[] => (seen.includes(name) ? seen : [...seen, name])

/** Pieces of a text by the class of the text. */
const PIECES: ReadonlyMap<string, Class> = new Map([
  ['text_delta', 'assistant_text'],
  ['thinking_delta', 'thinking'],
  ['command.output', 'tool_output'],
])

/** A piece whose text was not kept is told to nobody: as if it had not touched its item. */
const isMute = (name: string, notKept: readonly Class[] | undefined): boolean => {
  if (notKept === undefined) return false
  const of = PIECES.get(name)
  return of !== undefined && notKept.includes(of)
}

const noteTold = (at: Step, seen: string[], name: string): string[] =>
  isMute(name, at.notKept) ? seen : note(seen, name)

function growBlock(at: Step, kind: 'text' | 'thinking'): Context {
  const block = at.scope[kind] ?? { key: at.key, item: at.key, kind, seen: [] }
  const context: Context = { item: block.item, seen: block.seen, block: block.key, blockKind: kind }
  at.scope[kind] = { ...block, seen: noteTold(at, block.seen, at.name) }
  return context
}

function finishBlock(at: Step, kind: 'text' | 'thinking'): Context {
  const block = at.scope[kind]
  at.scope[kind] = undefined
  if (block === undefined) return { item: at.key, seen: [], block: at.key, blockKind: kind }
  return { item: block.item, seen: block.seen, block: block.key, blockKind: kind }
}

function startThinking(at: Step): Context {
  const before = at.scope.thinking
  at.scope.thinking = undefined
  return { ...growBlock(at, 'thinking'), ...(before !== undefined && { ends: [ended(before)] }) }
}

function touchCall(at: Step): Context {
  const id = nameOf(at.data.id)
  const name = scoped(at.scopeId, id)
  const known = at.state.calls.get(name)
  const call: Call = known ?? { key: at.key, id, tool: null, seen: [], open: true }
  if (typeof at.data.name === 'string') call.tool = nameOf(at.data.name)
  const context: Context = {
    item: call.key,
    seen: call.seen,
    tool: call.tool,
    ...(call.open && { block: call.key, blockKind: 'call' as const }),
  }
  call.seen = note(call.seen, at.name)
  at.state.calls.set(name, call)
  return context
}

function touchResult(at: Step): Context {
  const id = nameOf(at.data.id)
  const name = scoped(at.scopeId, id)
  const known = at.state.calls.get(name)
  const call: Call = known ?? { key: at.key, id, tool: null, seen: [], open: false }
  const context: Context = {
    item: call.key,
    seen: call.seen,
    tool: call.tool,
    ...(call.open && { ends: [endedCall(call)] }),
  }
  call.open = false
  call.seen = note(call.seen, 'tool_result')
  at.state.calls.set(name, call)
  return context
}

/** The projector tells the kinds of a `command` event apart by these names. */
export const commandName = (data: Json): string => `command.${asText(asRecord(data.event).kind)}`

function touchCommand(at: Step): Context {
  const event = asRecord(at.data.event)
  const name = scoped(at.scopeId, asText(event.command_id))
  const command = at.state.commands.get(name) ?? newCommand(at, asText(event.tool_call_id))
  const call = command.call === undefined ? undefined : at.state.calls.get(command.call)
  const seen = call?.seen ?? command.seen
  const kind = commandName(at.data)
  const context: Context = { item: command.item, seen, tool: command.tool }
  const noted = noteTold(at, seen, kind)
  if (call !== undefined) call.seen = noted
  command.seen = noted
  at.state.commands.set(name, command)
  if (event.kind === 'terminal') {
    const open = [command.stdout, command.stderr].filter(b => b !== undefined)
    command.stdout = undefined
    command.stderr = undefined
    return { ...context, ...(open.length > 0 && { ends: open.map(ended) }) }
  }
  if (event.kind !== 'output') return context
  const stream = event.stream === 'stderr' ? 'stderr' : 'stdout'
  const block: OpenBlock = command[stream] ?? {
    key: at.key,
    item: command.item,
    kind: stream,
    tool: command.tool,
    seen: [],
  }
  command[stream] = { ...block, seen: noteTold(at, block.seen, kind) }
  return { ...context, block: block.key, blockKind: stream }
}

function newCommand(at: Step, callId: string): Command {
  const name = scoped(at.scopeId, callId)
  const call = callId === '' ? undefined : at.state.calls.get(name)
  if (call === undefined) return { item: at.key, tool: null, seen: [] }
  return { item: call.key, tool: call.tool, call: name, seen: call.seen }
}

/**
 * An entry that may be the first of its item that some view shows: all but the later pieces of a text.
 * `event` is the flattened event's name.
 */
export function isMark(event: string, context: Context): boolean {
  const { item, seen = [], blockKind } = context
  // What takes items back is looked for among them.
  if (context.unsays !== undefined) return true
  if (item === undefined || event === 'tool_call_args_delta') return false
  const output = event === 'command' && (blockKind === 'stdout' || blockKind === 'stderr')
  if (isMute(output ? 'command.output' : event, context.notKept)) return false
  if (event === 'text_delta' || event === 'thinking_delta') return seen.length === 0
  return !output || !seen.includes('command.output')
}
