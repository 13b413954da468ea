import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { ShojiError } from '../lib/error.ts'

const HEADER_BYTES_MAX = 16 * 1024
const CLOSE_POLL_MS = 20

type Fetch = (request: Request, env: HttpBindings) => Response | Promise<Response>

/** A listening socket, bound before the app exists: what is made for it may depend on its port. */
export interface HttpServer {
  readonly port: number
  readonly url: string
  /** Until this is called every request is answered 503. */
  serve(fetch: Fetch): void
  /** Takes no more requests and resolves when the last answer is out. */
  close(): Promise<void>
  /** Ends what is still open. */
  destroy(): void
}

/** Rejects with `address_unusable` where the address can't be listened on. */
export async function openHttpServer(at: {
  readonly host: string
  readonly port: number
}): Promise<HttpServer> {
  let serving: Fetch = () => new Response(null, { status: 503 })
  const server = createAdaptorServer({
    fetch: (request: Request, env: unknown) => serving(request, env as HttpBindings),
    // Its own Response would answer once more where a stream has written the answer itself.
    overrideGlobalObjects: false,
    serverOptions: { maxHeaderSize: HEADER_BYTES_MAX, keepAliveTimeout: 5_000, noDelay: true },
  }) as Server
  server.headersTimeout = 10_000
  server.requestTimeout = 30_000
  const answering = new Set<unknown>()
  server.on('request', (_, response) => {
    answering.add(response)
    response.once('close', () => answering.delete(response))
  })
  await listen(server, at)
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `http://${inUrl(at.host)}:${port}`,
    serve(fetch) {
      serving = fetch
    },
    close: () => closeServer(server, answering),
    destroy: () => server.closeAllConnections(),
  }
}

const UNUSABLE: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is in use by another program; choose another port',
  EACCES: 'may not be listened on by this user; choose a port above 1023',
  EADDRNOTAVAIL: 'is no address of this machine',
}

const inUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host)

const listen = (server: Server, { host, port }: { host: string; port: number }): Promise<void> =>
  new Promise((resolve, reject) => {
    const refuse = (cause: NodeJS.ErrnoException): void => {
      const why = UNUSABLE[cause.code ?? ''] ?? `can't be listened on (${cause.code})`
      reject(new ShojiError('address_unusable', `${inUrl(host)}:${port} ${why}`, { cause }))
    }
    server.once('error', refuse)
    server.listen(port, host, () => {
      server.off('error', refuse)
      resolve()
    })
  })

/** Connections kept alive without a request are not waited for. */
const closeServer = (server: Server, answering: ReadonlySet<unknown>): Promise<void> =>
  new Promise(resolve => {
    const idle = setInterval(() => {
      if (answering.size === 0) server.closeAllConnections()
    }, CLOSE_POLL_MS)
    server.close(() => {
      clearInterval(idle)
      resolve()
    })
  })
