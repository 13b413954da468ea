import { emptyClientState, type Frame, type Item, reduce, type WorkerState } from '@shoji/web-contract'

/** What was said, by an account of its own: what a viewer holds against what the Runtime's log says. */

// biome-ignore lint/suspicious/noExplicitAny: a log as it is, looked at by an oracle of its own
type Logged = any

export interface Account {
  readonly spoken: unknown[]
  readonly results: unknown[]
  /** System items as texts, in no order. */
  readonly system: string[]
}

const collect = () => {
  const spoken: unknown[] = []
  const results: unknown[][] = []
  const system: string[] = []
  let texts = ''
  let calls: string[] = []
  const flush = (): void => {
    if (texts !== '' || calls.length > 0) spoken.push(['assistant', texts, ...calls])
    texts = ''
    calls = []
  }
  return {
    text: (text: string) => {
      texts += text
    },
    call: (id: string, name: string, args: unknown) =>
      calls.push(`${id} ${name} ${args === 'null' ? '{}' : args}`),
    user: (segments: Logged[]) => {
      flush()
      spoken.push(['user', segments.map(s => String(s.content).trim()).join('|')])
    },
    result: (id: unknown, { summary, output, is_error }: Logged) =>
      results.push([id, summary ?? '', output ?? '', is_error ?? false]),
    system: (item: Logged) => system.push(item.message ?? item.content ?? item.body ?? ''),
    account: (): Account => {
      flush()
      return { spoken, results: results.sort(), system: system.sort() }
    },
  }
}

/** Items that never got their end are not logged: those of these frames that had it. */
function finishedTexts(frames: readonly Frame[]): Set<string> {
  const ids = new Set<string>()
  for (const { event, data } of frames) {
    if (event === 'envelope' && data.event === 'text_done' && data.item !== undefined) ids.add(data.item)
    if (event !== 'snapshot') continue
    const open = new Set(data.state.open.blocks.map(b => b.item))
    for (const item of data.state.items) if (!open.has(item.id)) ids.add(item.id)
  }
  return ids
}

/** `loose`: texts (by their marks) and calls that the log may lack. */
export function seen(state: WorkerState, frames: readonly Frame[], loose: ReadonlySet<string>): Account {
  const ended = finishedTexts(frames)
  const told = collect()
  for (const item of state.items) see(item)
  return told.account()

  function see(item: Item): void {
    if (item.internal !== undefined) return
    if (item.kind === 'user_message') told.user(item.segments)
    else if (item.kind === 'text' && ended.has(item.id)) told.text(withoutLoose(item.text, loose))
    else if (item.kind === 'system') told.system(item.item)
    else if (item.kind === 'tool_call' && item.arguments !== undefined && !loose.has(item.call!)) {
      told.call(item.call!, item.name!, item.arguments)
      if (item.result !== undefined) told.result(item.call, item.result)
    }
  }
}

const withoutLoose = (text: string, loose: ReadonlySet<string>): string => {
  const mark = /#[^#]*;$/.exec(text)?.[0]
  return mark !== undefined && loose.has(mark) ? '' : text
}

export function logged(entries: readonly Logged[]): Account {
  const told = collect()
  for (const { kind, item, segments } of entries) {
    if (kind === 'user_input') told.user(segments)
    else if (kind === 'system_item') told.system(item)
    else if (kind === 'tool_result') told.result(item.call_id, { ...item, output: item.content })
    else if (kind === 'assistant_item' && item.kind === 'tool_call')
      told.call(item.call_id, item.name, item.arguments)
    else if (kind === 'assistant_item' && item.kind === 'message')
      told.text(item.content.map((c: Logged) => c.text).join(''))
  }
  return told.account()
}

/** Texts and thoughts that are shown and never had their end. */
export function unfinished(state: WorkerState, frames: readonly Frame[]): string[] {
  const ended = finishedTexts(frames)
  for (const { event, data } of frames)
    if (event === 'envelope' && data.event === 'thinking_done' && data.item !== undefined)
      ended.add(data.item)
  return state.items.flatMap(item =>
    (item.kind === 'text' || item.kind === 'thinking') && !ended.has(item.id) && item.text !== ''
      ? [item.text]
      : [],
  )
}

/** Goes through what a viewer saw, frame by frame. */
export function walk(frames: readonly Frame[], worker: string, texts: readonly string[]) {
  /** Calls whose result was told when it was there already. */
  const twice: string[] = []
  /** What stood of a text, at any time, and is not how any text begins. */
  const stray: string[] = []
  let state = emptyClientState()
  const shown = (id: string | undefined): Item | undefined =>
    state.workers[worker]?.state.items.findLast(item => item.id === id)
  for (const frame of frames) {
    const envelope = frame.event === 'envelope' ? frame.data : undefined
    const before = envelope?.event === 'tool_result' ? shown(envelope.item) : undefined
    if (before?.kind === 'tool_call' && before.result !== undefined) twice.push(before.call ?? '')
    state = reduce(state, frame)
    if (envelope?.event !== 'text_delta' && envelope?.event !== 'thinking_delta') continue
    const item = shown(envelope.item)
    if (item?.kind !== 'text' && item?.kind !== 'thinking') continue
    if (!texts.some(said => said.startsWith(item.text))) stray.push(item.text)
  }
  return { twice, stray }
}
