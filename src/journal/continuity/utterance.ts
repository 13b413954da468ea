import { createHmac } from 'node:crypto'
import { asArray, asRecord, asText, isRecord, type Json, parseJson, stringifyJson } from '../../lib/json.ts'

/**
 * What one said thing is, so that the live event and the log entry that tell it come out the same. Only keyed
 * digests of it are kept: neither a checkpoint nor an event id made of one tells what was said.
 */
export type Mac = (text: string) => string

/** Digits of a digest: 64 bits in hexadecimal. */
export const MAC_CHARS = 16

export const createMac =
  (key: Uint8Array): Mac =>
  text =>
    createHmac('sha256', key).update(text).digest('hex').slice(0, MAC_CHARS)

/**
 * Text of a message as far as it is compared: its beginning and its length. Blocks arrive one by one and a
 * digest of them joined needs them all, so this bounds what a message under way costs.
 */
export interface Prose {
  readonly head: string
  readonly chars: number
}

export const HEAD_CHARS = 256 * 1024

export const NO_PROSE: Prose = { head: '', chars: 0 }

export const joinProse = (prose: Prose, text: string): Prose => ({
  head: prose.head.length < HEAD_CHARS ? (prose.head + text).slice(0, HEAD_CHARS) : prose.head,
  chars: prose.chars + text.length,
})

/** `more` behind `prose`. Exact below the bound; above it both sides have the same head. */
export const appendProse = (prose: Prose, more: Prose): Prose => ({
  head: joinProse(prose, more.head).head,
  chars: prose.chars + more.chars,
})

export const proseOf = (text: string): Prose => joinProse(NO_PROSE, text)

/** A digest for what stands in one place of an utterance: no other place can have the same. */
const digest = (mac: Mac, place: string, text: string): string => mac(`${place}\u0000${text}`)

/** Nesting that would exhaust the stack; what lies deeper is taken for equal. */
const DEPTH_MAX = 100

/** Keys sorted: the log writes them in another order than the live event. */
function canonical(value: unknown, depth = 0): string {
  if (depth > DEPTH_MAX) return '…'
  if (Array.isArray(value)) return `[${value.map(v => canonical(v, depth + 1)).join(',')}]`
  if (!isRecord(value)) return value === undefined ? 'null' : stringifyJson(value)
  const members = Object.keys(value)
    .sort()
    .map(key => `${JSON.stringify(key)}:${canonical(value[key], depth + 1)}`)
  return `{${members.join(',')}}`
}

/** The log trims what was typed, the live event does not (R9). */
function trimmed(segments: unknown): unknown[] {
  return asArray(segments).flatMap(value => {
    const segment = asRecord(value)
    if (segment.kind !== 'text') return [segment]
    const content = asText(segment.content).trim()
    return content === '' ? [] : [{ ...segment, content }]
  })
}

/** Arguments are JSON text, written anew each time; what is not valid is `null` live and `{}` in the log (R29, R56). */
function parsedArguments(value: unknown): unknown {
  if (typeof value !== 'string') return value ?? {}
  try {
    return parseJson(value) ?? {}
  } catch {
    return {}
  }
}

/**
 * Digests by kind: `u` user input, `t` assistant text, `c` call (name, then arguments), `r` result (id, then
 * content), `s` system item, `n` the message of a notification.
 */
export const userInput = (mac: Mac, data: Json): string =>
  `u${digest(mac, 'u', canonical(trimmed(data.segments)))}`

export const proseDigest = (mac: Mac, prose: Prose): string =>
  digest(mac, 't', `${prose.chars}\u0000${prose.head}`)

export const call = (mac: Mac, data: Json): string =>
  `c${digest(mac, 'c', canonical([data.id, data.name]))}${digest(mac, 'a', canonical(parsedArguments(data.arguments)))}`

/** The part of a result that says whose it is. */
export const resultOwner = (mac: Mac, data: Json): string => `r${digest(mac, 'i', canonical(data.id))}`

export const result = (mac: Mac, data: Json): string => {
  const content = [asText(data.summary), asText(data.output), data.is_error === true]
  return resultOwner(mac, data) + digest(mac, 'o', canonical(content))
}

export const systemItem = (mac: Mac, item: Json): string => `s${digest(mac, 's', canonical(item))}`

export const notificationMessage = (mac: Mac, message: unknown): string =>
  `n${digest(mac, 'n', canonical(message))}`

/**
 * A system item as the stream tells it. The first generation echoes a client's input: the log has that of a
 * system kind as a notification with its message, that of a command not at all (R24).
 */
export function liveSystemItem(mac: Mac, item: Json): string | undefined {
  if (item.kind === 'embedded_worker_command_input') return undefined
  return item.kind === 'embedded_worker_system_input'
    ? notificationMessage(mac, item.content)
    : systemItem(mac, item)
}

export const thinking = (mac: Mac, data: Json): string => digest(mac, 'h', asText(data.text))

/** What one event of a log says by itself; undefined for what says nothing. */
export function loggedUtterance(mac: Mac, event: string, data: Json): string | undefined {
  switch (event) {
    case 'user_message':
      return userInput(mac, data)
    case 'text_done': {
      const text = asText(data.text)
      return text === '' ? undefined : `t${proseDigest(mac, proseOf(text))}`
    }
    case 'tool_call_done':
      return call(mac, data)
    case 'tool_result':
      return result(mac, data)
    case 'system_item':
      return systemItem(mac, asRecord(data.item))
    default:
      return undefined
  }
}
