import { type JsonObject, textAt } from './json.ts'

interface ProseBlock {
  readonly kind: 'text' | 'thinking'
  text: string
  finished: boolean
  stale?: boolean
}

interface CallBlock {
  readonly kind: 'tool_call'
  readonly id: string
  readonly name: string
  args: string
  stale?: boolean
}

interface Output {
  start_offset: number
  end_offset: number
  content: string
  truncated: boolean
}

interface Command {
  readonly command_id: string
  readonly tool_call_id: string
  status: string
  readonly started_at_ms: number
  observed_at_ms: number
  last_output_at_ms: number | null
  readonly stdout: Output
  readonly stderr: Output
  exit_code: number | null
}

/** What streams right now, as a snapshot's `in_flight` shows it. */
export interface InFlight {
  blocks: (ProseBlock | CallBlock)[]
  readonly commands: Map<string, Command>
}

export const emptyInFlight = (): InFlight => ({ blocks: [], commands: new Map() })

const openProse = (flight: InFlight, kind: ProseBlock['kind']): ProseBlock | undefined => {
  const last = flight.blocks.at(-1)
  return last?.kind === kind && !last.finished && last.stale !== true ? last : undefined
}

export const startThinking = (flight: InFlight): void => {
  flight.blocks.push({ kind: 'thinking', text: '', finished: false })
}

export const appendProse = (flight: InFlight, kind: ProseBlock['kind'], text: string): void => {
  const open = openProse(flight, kind)
  if (open) open.text += text
  else flight.blocks.push({ kind, text, finished: false })
}

export const finishProse = (flight: InFlight, kind: ProseBlock['kind'], text: string): void => {
  const open = openProse(flight, kind)
  if (open) {
    open.text = text
    open.finished = true
  } else flight.blocks.push({ kind, text, finished: true })
}

export const startCall = (flight: InFlight, id: string, name: string): void => {
  flight.blocks.push({ kind: 'tool_call', id, name, args: '' })
}

export const appendArgs = (flight: InFlight, id: string, json: string): void => {
  const call = flight.blocks.findLast(block => block.kind === 'tool_call' && block.id === id)
  if (call?.kind === 'tool_call') call.args += json
}

export const finishCall = (flight: InFlight, id: string): void => {
  flight.blocks = flight.blocks.filter(block => block.kind !== 'tool_call' || block.id !== id)
}

/** A model call begins: what still stands belongs to an earlier one, and no delta goes on with it. */
export const markStale = (flight: InFlight): void => {
  for (const block of flight.blocks) block.stale = true
}

/** Takes away the newest finished block that says exactly this; a message of two texts matches none (R22). */
export const removeSaid = (flight: InFlight, kind: ProseBlock['kind'], text: string): void => {
  const index = flight.blocks.findLastIndex(
    block => block.kind === kind && block.finished && block.text === text,
  )
  if (index >= 0) flight.blocks.splice(index, 1)
}

const emptyOutput = (): Output => ({ start_offset: 0, end_offset: 0, content: '', truncated: false })

const numberAt = (value: JsonObject, key: string): number => {
  const found = value[key]
  return typeof found === 'number' ? found : 0
}

/** How many characters of a command's output `in_flight` keeps; older output is cut from its front. */
const maxCommandChars = 65_536

export const applyCommand = (flight: InFlight, event: JsonObject): void => {
  const id = textAt(event, 'command_id')
  const observed = numberAt(event, 'observed_at_ms')
  if (event.kind === 'started') {
    flight.commands.set(id, {
      command_id: id,
      tool_call_id: textAt(event, 'tool_call_id'),
      status: 'running',
      started_at_ms: observed,
      observed_at_ms: observed,
      last_output_at_ms: null,
      stdout: emptyOutput(),
      stderr: emptyOutput(),
      exit_code: null,
    })
    return
  }
  const command = flight.commands.get(id)
  if (!command) return
  if (event.kind === 'terminal') flight.commands.delete(id)
  if (event.kind !== 'output') return
  const output = event.stream === 'stderr' ? command.stderr : command.stdout
  output.content += textAt(event, 'content')
  output.end_offset = numberAt(event, 'end_offset')
  if (output.content.length > maxCommandChars) {
    const cut = output.content.slice(0, output.content.length - maxCommandChars)
    output.content = output.content.slice(cut.length)
    output.start_offset += Buffer.byteLength(cut)
    output.truncated = true
  }
  command.observed_at_ms = observed
  command.last_output_at_ms = observed
}

const blockJson = (block: ProseBlock | CallBlock): string => {
  if (block.kind === 'tool_call') {
    return JSON.stringify({
      kind: 'tool_call',
      id: block.id,
      name: block.name,
      args: block.args,
      state: 'streaming_args',
    })
  }
  return JSON.stringify({ kind: block.kind, text: block.text, ...(block.finished ? { finished: true } : {}) })
}

/** The JSON of `in_flight`, `undefined` when nothing streams: the key is absent then (R32). */
export const inFlightJson = (flight: InFlight): string | undefined => {
  const parts: string[] = []
  if (flight.blocks.length > 0) parts.push(`"blocks":[${flight.blocks.map(blockJson).join(',')}]`)
  if (flight.commands.size > 0) {
    parts.push(
      `"commands":[${[...flight.commands.values()].map(command => JSON.stringify(command)).join(',')}]`,
    )
  }
  return parts.length > 0 ? `{${parts.join(',')}}` : undefined
}
