/** Debian's Chromium, driven over its own protocol: nothing is downloaded, and nothing is shared between launches. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, chromium, type Page } from 'playwright-core'

const PATH = '/usr/bin/chromium'

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** A page, and whatever it complained of. */
export interface WatchedPage {
  readonly page: Page
  /** Console errors, uncaught errors and violations of the content security policy, as text. */
  readonly complaints: readonly string[]
}

export interface Chromium extends AsyncDisposable {
  readonly context: BrowserContext
  /** A new tab of this browser. */
  tab(url: string): Promise<WatchedPage>
  /** Closes every tab, so that the next test begins with none. */
  closeTabs(): Promise<void>
}

/** A browser with a profile of its own, closed and wiped at the end of the block. */
export async function launchChromium(): Promise<Chromium> {
  if (!existsSync(PATH))
    throw new Error(`${PATH} is missing: the browser tests need it (Debian: apt-get install chromium)`)
  const profile = mkdtempSync(join(tmpdir(), 'shoji-chromium-'))
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: PATH,
    args: FLAGS,
    headless: true,
    viewport: { width: 1280, height: 800 },
  })
  return {
    context,
    async tab(url) {
      const page = await context.newPage()
      const complaints: string[] = []
      page.on('console', message => {
        if (message.type() === 'error' || /content security policy/i.test(message.text()))
          complaints.push(message.text())
      })
      page.on('pageerror', error => void complaints.push(String(error)))
      await page.goto(url)
      return { page, complaints }
    },
    async closeTabs() {
      // The first is the browser's own; without any it would end.
      await Promise.all(
        context
          .pages()
          .slice(1)
          .map(page => page.close()),
      )
    },
    async [Symbol.asyncDispose]() {
      await context.close()
      rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })
    },
  }
}
