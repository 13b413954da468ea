import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Hono } from 'hono'
import type { Env } from '../http/context.ts'
import type { DemoViewer } from './demo-files.ts'

const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "font-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

/** The demo's page and what it needs to sign in as both viewers. Loopback alone: it hands out their tokens. */
export function demoPages(
  directory: string,
  settings: {
    readonly runtime: string
    readonly viewers: readonly DemoViewer[]
    /** In the order in which they are offered. */
    readonly workers: readonly { readonly worker: string; readonly note: string }[]
  },
): Hono<Env> {
  const pages = new Hono<Env>()
  pages.use(async (c, next) => {
    c.header('content-security-policy', CSP)
    c.header('cache-control', 'no-store')
    await next()
  })
  pages.get('/demo.json', c => c.json(settings))
  pages.get('/', c => serveFile(c, 'index.html'))
  pages.get('/:name{[\\w.-]+\\.(?:js|css|svg)}', c => serveFile(c, c.req.param('name')))
  pages.get('/assets/:name{[\\w.-]+\\.(?:js|css|svg)}', c => serveFile(c, `assets/${c.req.param('name')}`))

  async function serveFile(c: import('hono').Context<Env>, name: string): Promise<Response> {
    const text = await readFile(join(directory, name), 'utf8').catch(() => null)
    if (text === null) return c.notFound()
    c.header('content-type', TYPES[name.split('.').at(-1) ?? ''] ?? 'text/plain; charset=utf-8')
    return c.body(text)
  }
  return pages
}
