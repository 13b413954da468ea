/** Elements from names and text. Text only ever becomes a text node: what an agent said is never markup. */

type Child = Node | string

interface Props {
  readonly class?: string
  readonly title?: string
  readonly [attribute: `data-${string}` | `aria-${string}`]: string
  readonly role?: string
  readonly type?: string
  readonly rows?: string
  readonly placeholder?: string
  readonly tabindex?: string
}

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(props)) made.setAttribute(key, value)
  made.append(...children)
  return made
}

/** Sets text only where it differs; where it merely grew, only the new part touches the page. */
export function setText(holder: HTMLElement, text: string): void {
  const node = holder.firstChild
  if (!(node instanceof Text)) holder.textContent = text
  else if (node.data === text) return
  else if (text.startsWith(node.data)) node.appendData(text.slice(node.length))
  else node.data = text
}

export function setAttribute(target: Element, name: string, value: string | null): void {
  if (target.getAttribute(name) === value) return
  if (value === null) target.removeAttribute(name)
  else target.setAttribute(name, value)
}

export function byId(id: string): HTMLElement {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no #${id}`)
  return found
}
