/** Two viewers of the same workers, side by side, each on its own stream. */
import type { ClientState } from '@shoji/web-contract/client'
import { byId, element, setAttribute, setText } from './dom.ts'
import { createPane, type Pane } from './pane.ts'
import { readSettings, type Settings } from './settings.ts'

const picker = byId('worker') as HTMLSelectElement
const upstream = byId('upstream')

function start({ runtime, viewers, workers = [] }: Settings): void {
  const panes: Pane[] = []
  const seen = new Map<string, readonly string[]>()

  const select = (): void => {
    for (const pane of panes) pane.select(picker.value)
  }

  /** Every worker that any of the viewers may see; the newest choice stays chosen. */
  const offer = (viewer: string, state: ClientState): void => {
    const names = state.views.flatMap(v => (v.runtime === runtime && !('state' in v) ? [v.worker] : []))
    if (names.join('\n') !== seen.get(viewer)?.join('\n')) {
      seen.set(viewer, names)
      const visible = new Set([...seen.values()].flat())
      const notes = new Map(workers.map(({ worker, note }) => [worker, note]))
      const all = new Set([...[...notes.keys()].filter(w => visible.has(w)), ...visible])
      const label = (name: string): string => [name, notes.get(name)].filter(Boolean).join(' · ')
      const chosen = picker.value
      picker.replaceChildren(...[...all].map(name => new Option(label(name), name, false, name === chosen)))
      select()
    }
    const told = state.upstreams[runtime]
    upstream.hidden = told === undefined || told.upstream === 'live'
    setText(upstream, `Runtime ${told?.upstream.replaceAll('_', ' ') ?? ''}`)
    setAttribute(upstream, 'data-tone', 'warn')
  }

  for (const viewer of viewers) panes.push(createPane(viewer, runtime, state => offer(viewer.name, state)))
  byId('panes').append(...panes.map(p => p.root))
  picker.addEventListener('change', select)
}

readSettings().then(start, (error: unknown) => {
  const failure = byId('failure')
  failure.hidden = false
  failure.append(element('strong', {}, 'The demo could not start. '), String(error))
})
