/**
 * What was said in a stream since its newest list, told event by told event: enough to tell whether a snapshot
 * says the same. Only the worker's own events; internal workers are not compared.
 *
 * What counts, and when. A message is what one model call said.
 *  1. A text or call counts when its message enters the log, which is not when its block is done: the Runtime
 *     collects the finished blocks of a message and logs them at its turn's end.
 *  2. After a cut (`llm_continuation`) the finished texts are logged and the finished calls thrown away (R27).
 *  3. Where a call fails or is cancelled, the finished blocks stay in the Runtime's collection and stand in
 *     front of the next message that is logged, or are forgotten. Both count as the same.
 *  4. The order of parts within a message does not count: its texts come first, joined, then its calls (R31).
 *  5. A second result of an id is a repetition (R62).
 *  6. `run_end rolled_back` unsays everything since the run's first user message (R26).
 *  7. Thinking, and what never got its `…_done`, is not said.
 */
import { asRecord, asText, type Json } from '../../lib/json.ts'
import { MOVES, type Phase, type Signal, signalOf } from './message-phase.ts'
import {
  appendProse,
  call,
  joinProse,
  liveSystemItem,
  loggedUtterance,
  MAC_CHARS,
  type Mac,
  NO_PROSE,
  type Prose,
  proseDigest,
  result,
  resultOwner,
  thinking,
  userInput,
} from './utterance.ts'

/** Parts of a message that is not logged yet. */
interface Parts {
  prose: Prose
  calls: string[]
}

/** Plain JSON: part of a checkpoint as it is. */
export interface Said {
  /**
   * Everything but system items, oldest first, as utterances. A leading `?` marks what the log may also lack;
   * a text with two digests may be either.
   */
  items: string[]
  /** The items before them: how many, in one running digest. */
  folded: { count: number; mac: string }
  /** Entries that have left `items`, the doubtful ones included. */
  gone: number
  /** System items, oldest first: a bag. */
  system: string[]
  /** System items forgotten for the limit: what a snapshot has more of them can no longer be told. */
  systemGone: number
  phase: Phase
  message: Parts
  /** Finished parts of messages that failed since the last one that was logged. */
  loose: Parts
  /** Where the run's first user message stood; null before it. */
  run: { items: number; system: number } | null
  /** Thinking told since the newest item, so that it is not told again with a message that is adopted. */
  thinking: string[]
}

/** At most 1 MiB as JSON: three quarters of it items of up to 36 bytes, the rest system items of 20. */
export const SAID_LIMITS = { items: 21_800, system: 13_100, parts: 256, thinking: 64 } as const

export const emptySaid = (): Said => ({
  items: [],
  folded: { count: 0, mac: '' },
  gone: 0,
  system: [],
  systemGone: 0,
  phase: 'quiet',
  message: { prose: NO_PROSE, calls: [] },
  loose: { prose: NO_PROSE, calls: [] },
  run: null,
  thinking: [],
})

/** Whether nothing was said: what says nothing proves nothing. */
export const saysNothing = (said: Said): boolean =>
  said.gone === 0 && said.systemGone === 0 && said.items.length === 0 && said.system.length === 0

/** Takes one told event into `said`. Most events, deltas among them, change nothing and cost nothing. */
export function say(said: Said, event: string, data: Json, mac: Mac): void {
  const signal = signalOf(event, data)
  if (signal !== undefined) move(said, signal, event, data, mac)
  switch (event) {
    case 'user_message':
      said.run ??= position(said)
      push(said, userInput(mac, data), mac)
      break
    case 'tool_result':
      if (!hasResult(said, resultOwner(mac, data))) push(said, result(mac, data), mac)
      break
    case 'system_item': {
      const item = liveSystemItem(mac, asRecord(data.item))
      if (item !== undefined) pushSystem(said, item)
      break
    }
    case 'thinking_done':
      said.thinking = [...said.thinking, thinking(mac, data)].slice(-SAID_LIMITS.thinking)
      break
    case 'run_end':
      if (data.result === 'rolled_back') unsay(said)
      said.run = null
      break
    case 'status':
      if (signal === 'rest') said.run = null
      break
    case 'shutdown':
      said.run = null
      break
  }
}

/**
 * Takes an event that a log tells, or one that was adopted from it: it counts at once, and a text is a message
 * of its own.
 */
export function sayLogged(said: Said, event: string, data: Json, mac: Mac): void {
  if (event === 'tool_result' && hasResult(said, resultOwner(mac, data))) return
  const item = loggedUtterance(mac, event, data)
  if (item !== undefined) addItem(said, item, mac)
}

/** Takes an utterance that is known to be no repetition. */
export function addItem(said: Said, item: string, mac: Mac): void {
  if (item.startsWith('s') || item.startsWith('n')) pushSystem(said, item)
  else push(said, item, mac)
}

/** How far it goes, in everything that was ever said. */
export const position = (said: Said): { items: number; system: number } => ({
  items: said.gone + said.items.length,
  system: said.systemGone + said.system.length,
})

function move(said: Said, signal: Signal, event: string, data: Json, mac: Mac): void {
  const { to, act } = MOVES[said.phase][signal]
  said.phase = to
  switch (act) {
    case 'log':
      log(said, mac, '', '')
      break
    case 'log_texts':
      log(said, mac, '', '?')
      break
    case 'doubt':
      doubt(said, mac)
      break
    case 'loosen':
      said.loose = joined(said)
      said.message = { prose: NO_PROSE, calls: [] }
      break
    case 'log_then_add':
      log(said, mac, '', '')
      add(said, event, data, mac)
      break
    case 'add':
      add(said, event, data, mac)
      break
    case 'none':
      break
  }
}

function add({ message }: Said, event: string, data: Json, mac: Mac): void {
  if (event === 'text_done') message.prose = joinProse(message.prose, asText(data.text))
  else if (message.calls.length < SAID_LIMITS.parts) message.calls.push(call(mac, data))
}

const joined = ({ loose, message }: Said): Parts => ({
  prose: appendProse(loose.prose, message.prose),
  calls: [...loose.calls, ...message.calls].slice(-SAID_LIMITS.parts),
})

/** The message is in the log; what was loose stands in front of it there, or nowhere. */
function log(said: Said, mac: Mac, texts: '' | '?', calls: '' | '?'): void {
  const { message, loose } = said
  const both = joined(said)
  if (message.prose.chars > 0) {
    const or = loose.prose.chars > 0 ? proseDigest(mac, both.prose) : ''
    push(said, `${texts}t${proseDigest(mac, message.prose)}${or}`, mac)
  } else if (loose.prose.chars > 0) push(said, `?t${proseDigest(mac, loose.prose)}`, mac)
  for (const loosened of loose.calls) push(said, `?${loosened}`, mac)
  for (const done of message.calls) push(said, `${calls}${done}`, mac)
  said.loose = { prose: NO_PROSE, calls: [] }
  said.message = { prose: NO_PROSE, calls: [] }
}

/** Its call ended well and then the run failed: in the log, or loose. */
function doubt(said: Said, mac: Mac): void {
  const both = joined(said)
  log(said, mac, '?', '?')
  said.loose = both
}

/** From the newest: a repetition follows soon. */
function hasResult({ items }: Said, owner: string): boolean {
  return items.findLastIndex(item => item.startsWith(owner)) >= 0
}

function push(said: Said, item: string, mac: Mac): void {
  said.items.push(item)
  said.thinking = []
  if (said.items.length > SAID_LIMITS.items) fold(said, mac)
}

/** The oldest eighth at once. What is folded is compared as it was surely said: without the doubtful. */
function fold(said: Said, mac: Mac): void {
  const oldest = said.items.splice(0, Math.ceil(SAID_LIMITS.items / 8))
  said.gone += oldest.length
  for (const item of oldest) {
    if (item.startsWith('?')) continue
    said.folded.mac = foldOne(said.folded.mac, item, mac)
    said.folded.count += 1
  }
}

/** The running digest with one more item. Of two digests of a text the first, the message alone, goes in. */
export const foldOne = (folded: string, item: string, mac: Mac): string =>
  mac(`${folded}\u0000${item.startsWith('t') ? item.slice(0, 1 + MAC_CHARS) : item}`)

function pushSystem(said: Said, item: string): void {
  said.system.push(item)
  if (said.system.length <= SAID_LIMITS.system) return
  const eighth = Math.ceil(SAID_LIMITS.system / 8)
  said.system.splice(0, eighth)
  said.systemGone += eighth
}

/** What is loose stays: it is of runs before this one. */
function unsay(said: Said): void {
  if (said.run === null) return
  said.items.length = Math.min(said.items.length, Math.max(0, said.run.items - said.gone))
  said.system.length = Math.min(said.system.length, Math.max(0, said.run.system - said.systemGone))
}
