/** The demo's page on a Shoji whose Runtime the test speaks for, and what a person sees on it. */
import type { Page } from 'playwright-core'
import { demoPages } from '../../src/cli/demo-pages.ts'
import { buildConsole } from './build.ts'
import { type Flow, type FlowOptions, QUICK, startFlow } from './flow.ts'
import { TOKENS } from './shoji.ts'

/** A Shoji with the page at `/`: `admin` sees all, `guest` the conversation. */
export async function startDemoFlow(options: FlowOptions = {}): Promise<Flow> {
  const viewers = (['admin', 'guest'] as const).map(name => ({
    name,
    token: TOKENS[name],
    note: `${name} of the test`,
  }))
  const pages = demoPages(await buildConsole(), { runtime: 'rt', viewers, workers: [] })
  return startFlow({ ...options, overrides: { ...QUICK, ...options.overrides, pages } })
}

const pane = (viewer: string): string => `.pane[data-viewer="${viewer}"]`

/** Kind and text of each card, in order, with everything unfolded; what is for the eye alone is left out. */
export const transcriptOf = (page: Page, viewer: string): Promise<[kind: string, text: string][]> =>
  page.$$eval(`${pane(viewer)} .card`, cards =>
    cards.map(card => {
      const copy = card.cloneNode(true) as HTMLElement
      for (const time of copy.querySelectorAll('time')) time.remove()
      return [card.getAttribute('data-kind') ?? '', copy.textContent ?? '']
    }),
  )

/** Waits until some card of the pane holds the text. */
export const untilShown = async (page: Page, viewer: string, text: string): Promise<void> => {
  await page
    .locator(`${pane(viewer)} .card`, { hasText: text })
    .first()
    .waitFor({ state: 'attached' })
}

export const untilConnection = async (
  page: Page,
  viewer: string,
  state: 'live' | 'offline' | 'stale',
): Promise<void> => {
  await page.waitForSelector(`${pane(viewer)}[data-connection="${state}"]`)
}

/** The button that drops the connection, and resumes it. */
export const press = (page: Page, viewer: string): Promise<void> =>
  page.click(`${pane(viewer)} .pane-head button`)

export const sayIn = async (page: Page, viewer: string, text: string): Promise<void> => {
  await page.fill(`${pane(viewer)} textarea`, text)
  await page.press(`${pane(viewer)} textarea`, 'Enter')
}
