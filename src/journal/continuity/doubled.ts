import { asArray, asRecord, type Json } from '../../lib/json.ts'
import { type FlatEvent, replacesList } from '../step.ts'
import { type Mac, userInput } from './utterance.ts'

/**
 * Later Runtimes tell a user's message twice, once as the echo of the request and once from the log, and
 * nothing joins the two. So they are counted by what they say, within a run: what lies between two of
 * `run_end`, a `status` that is not running, and an event that replaces the list.
 *
 * | of one message in a run | told                                | told next     |
 * |-------------------------|-------------------------------------|---------------|
 * | never, or twice         | the first telling: it counts        | is the second |
 * | once                    | the second telling: it is doubled   | is a first    |
 *
 * In an internal worker nothing is doubled. Both tellings must lie in one run: an echo that comes after the
 * run's end counts as a message of its own.
 *
 * What is kept is part of a checkpoint: digests of the messages told once, at most `DOUBLED_LIMIT`; past it
 * the oldest is forgotten, and its second telling counts.
 */
export type Doubled = readonly string[]

export const DOUBLED_LIMIT = 64

/** What a snapshot leaves: the inputs of the run that goes on in it were told once. */
export function doubledAfter(snapshot: Json, mac: Mac): Doubled {
  if (snapshot.status !== 'running') return []
  return inputsWithoutEnd(snapshot)
    .map(entry => userInput(mac, entry))
    .reduce<Doubled>(toggle, [])
}

/**
 * Whether a snapshot at rest has an input whose run did not end. Either it died with its Runtime, or it is about
 * to begin and its input told again: nothing tells which.
 */
export const mayBeToldAgain = (snapshot: Json): boolean =>
  snapshot.status !== 'running' && inputsWithoutEnd(snapshot).length > 0

function inputsWithoutEnd(snapshot: Json): Json[] {
  const entries = asArray(snapshot.entries).map(asRecord)
  const ended = entries.findLastIndex(({ kind }) => kind === 'run_completed' || kind === 'run_errored')
  return entries.slice(ended + 1).filter(entry => entry.kind === 'user_input')
}

/** Takes the next event: what is kept from then on, and whether the event is a second telling. */
export function noteDoubled(
  kept: Doubled,
  { event, data, scope }: FlatEvent,
  mac: Mac,
): { readonly kept: Doubled; readonly doubled: boolean } {
  if (scope !== '') return { kept, doubled: false }
  if (event === 'snapshot') return { kept: doubledAfter(data, mac), doubled: false }
  if (event === 'run_end' || (event === 'status' && data.status !== 'running') || replacesList(event, data))
    return { kept: [], doubled: false }
  if (event !== 'user_message') return { kept, doubled: false }
  const message = userInput(mac, data)
  return { kept: toggle(kept, message), doubled: kept.includes(message) }
}

const toggle = (kept: Doubled, message: string): Doubled =>
  kept.includes(message) ? kept.filter(known => known !== message) : [...kept, message].slice(-DOUBLED_LIMIT)
