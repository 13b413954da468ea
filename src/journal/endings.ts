import { asRecord, asText, type Json } from '../lib/json.ts'
import type { EndedBlock } from './entry.ts'
import { ended, endedCall, LIMITS, type OpenState, type Scope, scoped } from './open-state.ts'

/**
 * A turn can end with neither a block's `…_done` nor an end of its own, so many events end what is open in
 * their scope. Calls wait for their results, which come after `turn_end`; commands may come later still.
 */
const ENDS_BLOCKS: ReadonlySet<string> = new Set([
  'llm_call_start',
  'llm_call_end',
  'llm_retry',
  'llm_continuation',
  'turn_start',
  'turn_end',
  'run_end',
  'error',
  'shutdown',
])
const ENDS_CALLS: ReadonlySet<string> = new Set(['turn_start', 'run_end', 'shutdown'])

export interface Happened {
  readonly state: OpenState
  readonly scope: Scope
  readonly scopeId: string
  readonly name: string
  readonly data: Json
}

/** What an event ends beside the block it belongs to. Changes the state. */
export function endings({ name, scope, scopeId, state, data }: Happened): EndedBlock[] {
  if (name === 'internal_worker_removed') return removeScope(state, asText(asRecord(data.worker).session_id))
  const idle = name === 'status' && data.status !== 'running'
  const found: EndedBlock[] = []
  if (idle || ENDS_BLOCKS.has(name))
    for (const kind of ['text', 'thinking'] as const) {
      const block = scope[kind]
      if (block !== undefined) found.push(ended(block))
      scope[kind] = undefined
    }
  if (idle || ENDS_CALLS.has(name)) found.push(...endCalls(state, scopeId))
  if (name === 'shutdown') found.push(...endCommands(state, scopeId))
  return found
}

function endCalls(state: OpenState, scopeId: string): EndedBlock[] {
  const found: EndedBlock[] = []
  const prefix = scoped(scopeId, '')
  for (const [id, call] of state.calls) {
    if (!call.open || !id.startsWith(prefix)) continue
    found.push(endedCall(call))
    call.open = false
  }
  return found
}

function endCommands(state: OpenState, scopeId: string): EndedBlock[] {
  const found: EndedBlock[] = []
  const prefix = scoped(scopeId, '')
  for (const [id, command] of state.commands) {
    if (!id.startsWith(prefix)) continue
    for (const block of [command.stdout, command.stderr]) if (block !== undefined) found.push(ended(block))
    state.commands.delete(id)
  }
  return found
}

function removeScope(state: OpenState, id: string): EndedBlock[] {
  const scope = state.scopes.get(id)
  const found = [scope?.text, scope?.thinking].filter(b => b !== undefined).map(ended)
  found.push(...endCalls(state, id), ...endCommands(state, id))
  state.scopes.delete(id)
  return found
}

function endCallsOverLimit(state: OpenState): EndedBlock[] {
  const open = [...state.calls.values()].filter(call => call.open)
  return open.slice(0, Math.max(0, open.length - LIMITS.openCalls)).map(call => {
    call.open = false
    return endedCall(call)
  })
}

/** Past a limit the oldest goes, and what it had open ends in so many words: no client waits for it. */
export function bound(state: OpenState, begunCall: boolean): EndedBlock[] {
  const found: EndedBlock[] = []
  while (state.scopes.size > LIMITS.scopes) {
    const oldest = [...state.scopes.keys()].find(id => id !== '')!
    found.push(...removeScope(state, oldest))
  }
  if (begunCall) found.push(...endCallsOverLimit(state))
  while (state.calls.size > LIMITS.calls) {
    const [id, call] = state.calls.entries().next().value!
    if (call.open) found.push(endedCall(call))
    state.calls.delete(id)
  }
  while (state.commands.size > LIMITS.commands) {
    const [id, command] = state.commands.entries().next().value!
    for (const block of [command.stdout, command.stderr]) if (block !== undefined) found.push(ended(block))
    state.commands.delete(id)
  }
  return found
}
