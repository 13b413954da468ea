import type { Item, Segment } from '@shoji/web-contract/client'
import { element, setAttribute, setText } from './dom.ts'
import { receiptChips, withheldBars } from './receipts.ts'

/** One item on the page. `update` touches only what changed. */
export interface Card {
  readonly root: HTMLElement
  update(item: Item, open: boolean): void
}

const TITLES: Record<Item['kind'], string> = {
  user_message: 'User',
  text: 'Assistant',
  thinking: 'Thinking',
  tool_call: 'Tool',
  system: 'System',
  system_prompt: 'System prompt',
  error: 'Error',
  notice: 'Notice',
  unsupported: 'Unsupported event',
}

/** Longer than this an output is folded away at first. */
const FOLD_UNITS = 600

export function createCard(first: Item): Card {
  const title = element('span', { class: 'title' }, TITLES[first.kind])
  const time = element('time', { class: 'time' })
  const chips = element('span', { class: 'chips' })
  const head = element('header', {}, title, chips, time)
  const body = bodyOf(first)
  const bars = element('div', { class: 'bars' })
  const root = element(
    'article',
    { class: 'card', 'data-kind': first.kind, 'data-item': first.id },
    head,
    body.root,
    bars,
  )
  let shown: Item | undefined
  return {
    root,
    update(item, open) {
      setAttribute(root, 'data-open', open ? 'true' : null)
      if (item === shown) return
      if (item.time !== shown?.time) {
        setText(time, new Date(item.time).toLocaleTimeString())
        setAttribute(time, 'datetime', new Date(item.time).toISOString())
      }
      if (item.withheld !== shown?.withheld) bars.replaceChildren(...withheldBars(item))
      if (item.cut !== shown?.cut || item.internal !== shown?.internal)
        chips.replaceChildren(...receiptChips(item))
      shown = item
      body.update(item)
    },
  }
}

interface Body {
  readonly root: HTMLElement
  update(item: Item): void
}

function bodyOf(item: Item): Body {
  switch (item.kind) {
    case 'tool_call':
      return toolBody()
    case 'thinking':
      return foldedBody('reasoning', true)
    case 'system':
    case 'system_prompt':
      return foldedBody('content', false)
    case 'unsupported':
      return foldedBody('data', false)
    default:
      return plainBody()
  }
}

function plainBody(): Body {
  const root = element('div', { class: 'prose' })
  root.dir = 'auto'
  return { root, update: item => setText(root, textOf(item)) }
}

function foldedBody(label: string, open: boolean): Body {
  const text = element('div', { class: 'prose' })
  text.dir = 'auto'
  const root = element('details', {}, element('summary', {}, label), text)
  root.open = open
  return {
    root,
    update(item) {
      const value = textOf(item)
      root.hidden = value === ''
      setText(text, value)
    },
  }
}

/** A name, the arguments, and each stream or result where there is one. */
function toolBody(): Body {
  const name = element('code', { class: 'tool' })
  const state = element('span', { class: 'chip', 'data-tone': 'quiet' })
  const root = element('div', { class: 'call' }, element('div', { class: 'call-head' }, name, state))
  const parts = new Map<string, HTMLElement>()
  const part = (label: string, value: string | undefined): void => {
    if (value === undefined || value === '') return
    let pre = parts.get(label)
    if (pre === undefined) {
      pre = element('pre', { tabindex: '0', 'aria-label': label })
      const details = element('details', {}, element('summary', {}, label), pre)
      details.open = value.length <= FOLD_UNITS
      parts.set(label, pre)
      root.append(details)
    }
    setText(pre, value)
  }
  return {
    root,
    update(item) {
      if (item.kind !== 'tool_call') return
      const { result, command } = item
      setText(name, item.name || 'a tool')
      const [word, tone] = callState(item)
      setText(state, word)
      setAttribute(state, 'data-tone', tone)
      const hidden = item.withheld?.some(w => w.at === '/arguments') === true
      part('arguments', hidden ? undefined : pretty(item.arguments))
      part('summary', result?.summary)
      part('output', result?.output)
      if (result?.output === undefined) {
        part('stdout', command?.stdout)
        part('stderr', command?.stderr)
      }
    },
  }
}

function callState(item: Extract<Item, { kind: 'tool_call' }>): [string, string] {
  const { result, command } = item
  // How it ended is part of its output: who may not see the one is not told the other.
  if (result !== undefined && item.withheld?.some(w => w.at.startsWith('/result')))
    return ['finished', 'quiet']
  if (result?.is_error === true) return ['failed', 'bad']
  if (result !== undefined) return ['done', 'good']
  return [command?.status ?? 'called', 'quiet']
}

function pretty(json: string | undefined): string | undefined {
  if (json === undefined || json === '' || json.length > 20_000) return json
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}

function textOf(item: Item): string {
  switch (item.kind) {
    case 'user_message':
      return item.segments.map(segmentText).join('')
    case 'text':
    case 'thinking':
    case 'system_prompt':
      return item.text
    case 'system':
      return [item.item.message, item.item.body, item.item.content]
        .filter(t => typeof t === 'string')
        .join('\n')
    case 'error':
      return [item.code, item.message].filter(Boolean).join(': ')
    case 'notice':
      return [
        words(item.event),
        ...Object.entries(item.data).map(([k, v]) => `${words(k)} ${String(v)}`),
      ].join(' · ')
    case 'unsupported':
      return `${item.event} ${JSON.stringify(item.data, null, 2)}`
    case 'tool_call':
      return ''
  }
}

const words = (name: string): string => name.replaceAll('_', ' ')

function segmentText(segment: Segment): string {
  const { kind, content, path, selector, slug } = segment
  if (typeof content === 'string') return content
  const name = [path, selector, slug].find(n => typeof n === 'string')
  return name === undefined ? `[${kind}]` : ` @${name} `
}
