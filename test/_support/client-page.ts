/** A page that holds nothing but the typed client, for tests that drive it as a web UI would. */
import { fileURLToPath } from 'node:url'
import { Hono } from 'hono'
import type { Page } from 'playwright-core'
import { build } from 'vite'
import type { Env } from '../../src/http/context.ts'
import type { Selection, ShojiClientOptions } from '../../web-contract/client/index.ts'
import type { ClientState } from '../../web-contract/index.ts'
import { TOKENS, type User } from './shoji.ts'

const entries = {
  client: `import { createShojiClient } from '@shoji/web-contract/client'
    globalThis.createShojiClient = createShojiClient`,
  worker: `import { serveSharedStreams } from '@shoji/web-contract/client/shared-worker'
    serveSharedStreams()`,
} as const

const root = fileURLToPath(new URL('../..', import.meta.url))

async function bundle(name: keyof typeof entries): Promise<string> {
  const id = `${root}/virtual-${name}.js`
  const output = await build({
    root,
    configFile: false,
    logLevel: 'silent',
    plugins: [
      {
        name: 'entry',
        resolveId: source => (source === id ? id : undefined),
        load: source => (source === id ? entries[name] : undefined),
      },
    ],
    build: { write: false, target: 'es2023', modulePreload: false, rolldownOptions: { input: id } },
  })
  const [chunk] = [output].flat().flatMap(o => ('output' in o ? o.output : []))
  if (chunk?.type !== 'chunk') throw new Error(`no bundle of ${name}`)
  return chunk.code
}

/** Pages for `startShoji`: `/` with `createShojiClient` as a global. */
export async function clientPages(): Promise<Hono<Env>> {
  const [client, worker] = await Promise.all([bundle('client'), bundle('worker')])
  const script = { 'content-type': 'text/javascript; charset=utf-8' }
  return new Hono<Env>()
    .get('/', c =>
      c.html(
        '<!doctype html><link rel="icon" href="data:,"><script type="module" src="/client.js"></script>',
      ),
    )
    .get('/client.js', c => c.body(client, 200, script))
    .get('/worker.js', c => c.body(worker, 200, script))
}

/** What a page of this kind keeps while a client runs in it. */
interface Kept {
  readonly client: { readonly state: ClientState; readonly connection: { readonly state: string } }
  readonly connections: { readonly state: string; readonly atMs: number; readonly since?: number | null }[]
  readonly frames: { readonly event: string; readonly id?: string }[]
}

declare global {
  var createShojiClient: (options: ShojiClientOptions) => Kept['client']
  var kept: Kept
}

export interface PageClientOptions {
  readonly selection: Selection
  readonly user?: User
  readonly transport?: 'fetch' | 'eventsource'
  readonly shared?: boolean
}

/** Starts a client in the page; what it says stands in the global `kept`. */
export async function startClient(page: Page, options: PageClientOptions): Promise<void> {
  const { user = 'admin', transport = 'fetch' } = options
  if (transport === 'eventsource') await signIn(page, user)
  await page.waitForFunction(() => 'createShojiClient' in globalThis)
  await page.evaluate(
    ({ selection, token, transport, shared }) => {
      const connections: Kept['connections'] = []
      const frames: Kept['frames'] = []
      const client = globalThis.createShojiClient({
        url: '',
        selection,
        transport,
        ...(transport === 'fetch' && { token }),
        ...(shared && {
          share: { connect: () => new SharedWorker('/worker.js', { type: 'module' }), viewer: token },
        }),
        onState() {},
        onFrame: frame => void frames.push(frame),
        onConnection: connection => void connections.push({ ...connection, atMs: Date.now() }),
      })
      globalThis.kept = { client, connections, frames }
    },
    { selection: options.selection, token: TOKENS[user], transport, shared: options.shared === true },
  )
}

/** Signs the page's browser in, as a login form would: from then on the cookie speaks. */
export const signIn = async (page: Page, user: User): Promise<void> => {
  const status = await page.evaluate(async token => {
    const body = JSON.stringify({ token })
    const headers = { 'content-type': 'application/json' }
    return (await fetch('/api/session', { method: 'POST', headers, body })).status
  }, TOKENS[user])
  if (status !== 201) throw new Error(`sign-in answered ${status}`)
}

/** By way of JSON text, since half a surrogate pair would not survive the driver's own protocol. */
export const stateIn = async (page: Page): Promise<ClientState> =>
  JSON.parse(await page.evaluate(() => JSON.stringify(globalThis.kept.client.state)))

/** Waits until some item of the state, as JSON, holds the text. */
export const untilIn = async (page: Page, text: string): Promise<void> => {
  await page.waitForFunction(
    wanted => JSON.stringify(globalThis.kept?.client.state ?? '').includes(wanted),
    text,
  )
}

export const untilConnected = async (page: Page): Promise<void> => {
  await page.waitForFunction(() => globalThis.kept?.client.connection.state === 'live')
}
