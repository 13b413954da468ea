import { type ShojiClient, ShojiProblem } from '@shoji/web-contract/client'
import { element, setText } from './dom.ts'

type Receipt = Awaited<ReturnType<ShojiClient['sendCommand']>>

/** The box for the user's words. Enter sends, Shift+Enter begins a line. */
export function composer(send: (content: string) => Promise<Receipt>) {
  const box = element('textarea', {
    rows: '1',
    placeholder: 'Say something to the worker',
    'aria-label': 'Message',
  })
  const button = element('button', { type: 'submit' }, 'Send')
  const answer = element('span', { class: 'feedback', role: 'status' })
  const root = element('form', { class: 'composer' }, box, button, answer)
  let allowed = false

  async function submit(): Promise<void> {
    const content = box.value.trim()
    if (content === '' || button.disabled) return
    button.disabled = true
    try {
      const receipt = await send(content)
      setText(answer, receipt.state === 'done' ? 'sent' : receipt.state.replaceAll('_', ' '))
      box.value = ''
    } catch (error) {
      setText(answer, error instanceof ShojiProblem ? error.code.replaceAll('_', ' ') : 'not sent')
    } finally {
      button.disabled = !allowed
    }
  }

  root.addEventListener('submit', event => {
    event.preventDefault()
    void submit()
  })
  box.addEventListener('keydown', event => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
    event.preventDefault()
    void submit()
  })
  function allow(next: boolean): void {
    if (next === allowed && box.disabled === !next) return
    allowed = next
    box.disabled = !next
    button.disabled = !next
    box.placeholder = next ? 'Say something to the worker' : 'This viewer may not send'
  }

  allow(false)
  return { root, allow }
}
