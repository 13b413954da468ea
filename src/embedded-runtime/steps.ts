import { type Generation, type RuntimeEvent, usage } from './events.ts'
import type { JsonObject } from './json.ts'

/** One step of a run: an event, a wait in units of the pace, or a stand-still until the turn is interrupted. */
export type Step = RuntimeEvent | { readonly waitPaces: number } | { readonly hold: true }

export interface Scene {
  readonly text: string
  readonly argument: string
  readonly generation: Generation
  /** The numbers that the next turn and the next model call get; they move as turns and calls end. */
  readonly turn: () => number
  readonly llmCall: () => number
  readonly late: readonly RuntimeEvent[]
  readonly newCallId: () => string
  readonly newId: () => string
  readonly now: () => number
}

export interface Call {
  readonly id: string
  readonly name: string
  readonly args: JsonObject
  readonly summary: string
  readonly output?: string
  readonly isError?: boolean
}

export type Steps = Generator<Step, void, undefined>

export const event = (name: string, data?: JsonObject): RuntimeEvent =>
  data === undefined ? { event: name } : { event: name, data }

/** Pieces of at most `size` code points, as the model streams them: grapheme clusters are cut (R30). */
const pieces = (text: string, size: number): string[] => {
  const points = [...text]
  const out: string[] = []
  for (let at = 0; at < points.length; at += size) out.push(points.slice(at, at + size).join(''))
  return out
}

export function* say(text: string): Steps {
  for (const piece of pieces(text, 9)) yield event('text_delta', { text: piece })
  yield event('text_done', { text })
}

export function* think(text: string): Steps {
  yield event('thinking_start')
  for (const piece of pieces(text, 12)) yield event('thinking_delta', { text: piece })
  yield event('thinking_done', { text })
}

/** The model writes its arguments in its own key order; the done event has them sorted (R29). */
export function* call({ id, name, args }: Call): Steps {
  yield event('tool_call_start', { id, name })
  for (const piece of pieces(JSON.stringify(args), 11)) {
    yield event('tool_call_args_delta', { id, json: piece })
  }
  const sorted = Object.fromEntries(Object.entries(args).sort(([a], [b]) => (a < b ? -1 : 1)))
  yield event('tool_call_done', { id, name, arguments: JSON.stringify(sorted) })
}

export function* beginTurn(scene: Scene): Steps {
  yield event('turn_start', { turn: scene.turn() })
  yield event('llm_call_start', { llm_call: scene.llmCall() })
}

export function* endCall(scene: Scene, outputTokens = 42): Steps {
  yield usage(1200, outputTokens)
  yield event('llm_call_end', { llm_call: scene.llmCall() })
}

export function* endTurn(scene: Scene): Steps {
  yield event('turn_end', { turn: scene.turn(), result: 'finished' })
}

/** A whole turn of these parts. */
export function* turn(scene: Scene, parts: readonly Steps[], late: readonly RuntimeEvent[] = []): Steps {
  yield* beginTurn(scene)
  yield* late
  for (const part of parts) yield* part
  yield* endCall(scene)
  yield* endTurn(scene)
}

function* command(scene: Scene, { id, output = '', isError = false }: Call): Steps {
  const command_id = `command-${scene.newCallId()}`
  const say = (more: JsonObject): RuntimeEvent =>
    event('command', { event: { ...more, observed_at_ms: scene.now() } })
  yield say({ kind: 'started', command_id, tool_call_id: id })
  const end = Buffer.byteLength(output)
  if (output !== '') {
    yield say({
      kind: 'output',
      command_id,
      stream: 'stdout',
      start_offset: 0,
      end_offset: end,
      content: output,
    })
  }
  const outcome = isError ? { status: 'failed', exit_code: 1 } : { status: 'completed', exit_code: 0 }
  yield say({ kind: 'terminal', command_id, ...outcome, stdout_end_offset: end, stderr_end_offset: 0 })
}

/** The results of a turn's calls: all together, in the order of the calls, after the turn's end (R23). */
export function* results(scene: Scene, calls: readonly Call[]): Steps {
  if (scene.generation === 'protocol-ws') {
    for (const one of calls) if (one.name === 'Bash') yield* command(scene, one)
  }
  yield { waitPaces: 4 }
  for (const { id, summary, output, isError } of calls) {
    yield event('tool_result', {
      id,
      summary,
      ...(output === undefined ? {} : { output }),
      is_error: isError ?? false,
    })
  }
}

export function* endRun(): Steps {
  yield event('run_end', { result: 'finished' })
}
