import { asRecord, type Json } from '../../lib/json.ts'
import type { Placed } from '../expand.ts'
import { addItem, emptySaid, position, type Said, say } from './said.ts'
import { loggedUtterance, type Mac, notificationMessage, resultOwner } from './utterance.ts'

/** One thing a list says, with the told events that make it: its own last, the message's thinking before it. */
export interface ListedItem {
  readonly item: string
  /** For a notification: the same as the echo of the input that made it. */
  readonly echo?: string
  readonly told: readonly Placed[]
}

export interface SaidList {
  /** In the order of the list, repetitions left out. */
  readonly items: readonly ListedItem[]
  /** To go on from with the live events that follow. */
  readonly said: Said
}

/**
 * What an expanded list says. Before its `status` it is log: each text is a message of its own, and everything
 * in it counts. After it stands what is in flight, which goes on live. `before` is what was said up to a list
 * that replaces another of the same incarnation: the Runtime's collection of loose parts outlives its log.
 */
export function saidOfList(list: readonly Placed[], mac: Mac, before?: Said): SaidList {
  const own = list.filter(({ context, event }) => context.scope === undefined && event !== 'internal_worker')
  const status = own.findLastIndex(({ event }) => event === 'status')
  const logged = status < 0 ? own : own.slice(0, status)
  const items = listed(logged, mac)
  const said = emptySaid()
  if (before !== undefined) said.loose = structuredClone(before.loose)
  let firstInput: Said['run'] = null
  const firstOfRun = inputOfOpenRun(logged)
  for (const { item, told } of items) {
    if (told.at(-1) === firstOfRun) firstInput = position(said)
    addItem(said, item, mac)
  }
  if (status < 0) return { items, said }
  if (own[status]!.data.status === 'running') said.run = firstInput
  for (const { event, data } of own.slice(status)) say(said, event, data, mac)
  return { items, said }
}

/** The first user input after the last run that ended. */
function inputOfOpenRun(logged: readonly Placed[]): Placed | undefined {
  const ended = logged.findLastIndex(({ event }) => event === 'run_end')
  return logged.slice(ended + 1).find(({ event }) => event === 'user_message')
}

function listed(logged: readonly Placed[], mac: Mac): ListedItem[] {
  const items: ListedItem[] = []
  const results = new Set<string>()
  let reasoning: Placed[] = []
  for (const told of logged) {
    const { event, data } = told
    if (event === 'thinking_done') reasoning.push(told)
    const item = loggedUtterance(mac, event, data)
    if (item === undefined) continue
    if (event === 'tool_result') {
      const owner = resultOwner(mac, data)
      if (results.has(owner)) continue
      results.add(owner)
    }
    const thought = event === 'text_done' || event === 'tool_call_done' ? reasoning : []
    // System items may stand between a message's thinking and its text.
    if (event !== 'system_item') reasoning = []
    items.push({ item, told: [...thought, told], ...echoOf(event, data, mac) })
  }
  return items
}

function echoOf(event: string, data: Json, mac: Mac): { echo: string } | undefined {
  if (event !== 'system_item') return undefined
  const { kind, message } = asRecord(data.item)
  return kind === 'notification' ? { echo: notificationMessage(mac, message) } : undefined
}
