import type { Frame } from '@shoji/web-contract'
import {
  type ClientState,
  type ConnectionState,
  createShojiClient,
  type Item,
  ShojiProblem,
  type WorkerEntry,
  workerKey,
} from '@shoji/web-contract/client'
import { composer } from './composer.ts'
import { element, setAttribute, setText } from './dom.ts'
import type { Viewer } from './settings.ts'
import { createTranscript } from './transcript.ts'

const TONES: Record<ConnectionState['state'], string> = {
  live: 'good',
  catching_up: 'quiet',
  stale: 'warn',
  offline: 'warn',
  signed_out: 'bad',
  denied: 'bad',
  closed: 'quiet',
}

const DROPPED = 'Dropped: the agent goes on, and nothing reaches this viewer until you resume.'
const AWAY = 'What you see may be old. The connection is being made again.'

export interface Pane {
  readonly root: HTMLElement
  select(worker: string): void
}

/** One viewer: its own token, its own stream, its own view of the same workers. */
export function createPane(viewer: Viewer, runtime: string, onState: (state: ClientState) => void): Pane {
  const chip = element('span', { class: 'chip', role: 'status' }, 'connecting')
  const status = element('span', { class: 'count' })
  const policy = element('span', { class: 'count', title: 'hash of the policy in force' })
  const frames = element('span', { class: 'count' }, '0 frames')
  const feedback = element('span', { class: 'feedback', role: 'status' })
  const notice = element('p', { class: 'notice', role: 'status' })
  notice.hidden = true
  const toggle = element('button', { type: 'button' }, 'Drop connection')
  const older = element('button', { type: 'button', class: 'older' }, 'Show earlier')
  const transcript = createTranscript()
  transcript.root.prepend(older)
  const send = composer(content =>
    client.sendCommand({ runtime, worker }, { command: 'input.user', content }),
  )
  const root = element(
    'section',
    { class: 'pane', 'data-viewer': viewer.name, 'aria-label': `Viewer ${viewer.name}` },
    element(
      'header',
      { class: 'pane-head' },
      element(
        'div',
        { class: 'row who' },
        element('h2', {}, viewer.name),
        element('p', { class: 'note' }, viewer.note),
      ),
      element('div', { class: 'row' }, chip, toggle, feedback),
      element('div', { class: 'row facts' }, status, policy, frames),
    ),
    notice,
    transcript.root,
    send.root,
  )

  let worker = ''
  let count = 0
  let missed: number | undefined
  /** Pages before the snapshot, and the cursor they began from: another snapshot makes them void. */
  let before: { from: string | null; earlier: string | null; items: readonly Item[] } | undefined
  let shown: { entry: WorkerEntry | undefined; before: typeof before } | undefined

  const client = createShojiClient({
    url: '',
    selection: { runtime },
    token: viewer.token,
    share: {
      connect: () =>
        new SharedWorker(new URL('./shared-stream.ts', import.meta.url), { type: 'module', name: 'shoji' }),
      viewer: viewer.name,
    },
    onState(state) {
      render(state)
      onState(state)
    },
    onFrame,
    onConnection: become,
  })

  function onFrame(frame: Frame): void {
    count += 1
    setText(frames, `${count.toLocaleString()} frames`)
    setAttribute(root, 'data-frames', String(count))
    if (frame.event === 'hello') {
      missed = frame.data.outcome === 'resumed' ? 0 : undefined
      if (frame.data.outcome === 'reset') setText(feedback, `reset: ${words(frame.data.reason ?? 'unknown')}`)
    } else if (frame.event === 'reset') setText(feedback, `reset: ${words(frame.data.reason)}`)
    else if (frame.event === 'gap') setText(feedback, 'something was lost before it reached Shoji')
    else if (frame.event === 'bye') setText(feedback, `the server said: ${words(frame.data.reason)}`)
    else if (missed !== undefined && frame.event === 'envelope') missed += 1
    else if (missed !== undefined && frame.event === 'caught_up') {
      setText(feedback, `resumed with ${missed.toLocaleString()} missed frame${missed === 1 ? '' : 's'}`)
      missed = undefined
    }
  }

  function become(connection: ConnectionState): void {
    const dropped = connection.state === 'offline' && connection.dropped === true
    const since = 'since' in connection && connection.since !== null ? connection.since : undefined
    const at = since === undefined ? '' : ` since ${new Date(since).toLocaleTimeString()}`
    setText(chip, dropped ? `dropped${at}` : words(connection.state) + at)
    setAttribute(chip, 'data-tone', TONES[connection.state])
    setAttribute(root, 'data-connection', connection.state)
    setText(toggle, dropped ? 'Resume connection' : 'Drop connection')
    setAttribute(toggle, 'data-primary', dropped ? 'true' : null)
    notice.hidden = connection.state === 'live' || connection.state === 'catching_up'
    setText(notice, dropped ? DROPPED : AWAY)
  }

  function render(state: ClientState): void {
    const entry = state.workers[workerKey(runtime, worker)]
    const view = state.views.find(v => v.runtime === runtime && v.worker === worker)
    setText(policy, `policy ${state.policy?.slice(0, 8) ?? '–'}`)
    setText(status, `agent ${entry?.state.status ?? (view === undefined ? 'not visible' : 'status unknown')}`)
    send.allow(view !== undefined && !('state' in view) && view.commands.includes('input.user'))
    if (before !== undefined && before.from !== (entry?.earlier ?? null)) before = undefined
    if (shown !== undefined && shown.entry === entry && shown.before === before) return
    shown = { entry, before }
    older.hidden = (before?.earlier ?? (before === undefined ? (entry?.earlier ?? null) : null)) === null
    const items = entry?.state.items ?? []
    transcript.show(before === undefined ? items : [...before.items, ...items], entry?.state.open)
  }

  async function showEarlier(): Promise<void> {
    const entry = client.state.workers[workerKey(runtime, worker)]
    const from = entry?.earlier ?? null
    const at = before?.earlier ?? from
    if (at === null) return
    older.disabled = true
    try {
      const page = await client.history({ runtime, worker }, { before: at })
      const items = [...page.items.toReversed(), ...(before?.items ?? [])]
      before = { from, earlier: page.earlier, items }
      transcript.prepending(() => render(client.state))
    } catch (error) {
      setText(feedback, error instanceof ShojiProblem ? words(error.code) : 'no page')
    } finally {
      older.disabled = false
    }
  }

  toggle.addEventListener('click', () => {
    if (client.connection.state === 'offline' && client.connection.dropped === true) client.resume()
    else client.drop()
  })
  older.addEventListener('click', () => void showEarlier())
  become(client.connection)

  return {
    root,
    select(next) {
      if (next === worker) return
      worker = next
      before = undefined
      shown = undefined
      render(client.state)
    },
  }
}

const words = (name: string): string => name.replaceAll('_', ' ')
