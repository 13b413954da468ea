/** What the page is told by the server beside it. */
export interface Viewer {
  readonly name: string
  readonly token: string
  readonly note: string
}

export interface Settings {
  readonly runtime: string
  readonly viewers: readonly Viewer[]
  /** Workers that are to stand first in the picker, the first of them chosen. */
  readonly workers?: readonly { readonly worker: string; readonly note: string }[]
}

export async function readSettings(): Promise<Settings> {
  const response = await fetch('demo.json', { cache: 'no-store' })
  if (!response.ok) throw new Error(`demo.json: status ${response.status}`)
  return (await response.json()) as Settings
}
