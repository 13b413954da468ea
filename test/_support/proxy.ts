import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A network between client and server that can fail: it passes bytes on, or cuts them. */
export interface Network extends AsyncDisposable {
  readonly port: number
  /** The first bytes of each connection, as text: request line and headers. */
  readonly heads: readonly string[]
  /** Where new connections lead. */
  target: number
  /** While it is down every connection ends at once. */
  down: boolean
  /** Cuts all connections without a word. */
  cut(): void
}

export async function startProxy(target: number): Promise<Network> {
  const heads: string[] = []
  const open = new Set<Socket>()
  const server = createServer(client => {
    if (proxy.down) {
      client.destroy()
      return
    }
    const upstream = connect(proxy.target, '127.0.0.1')
    client.once('data', chunk => heads.push(chunk.toString('latin1')))
    client.pipe(upstream).pipe(client)
    for (const socket of [client, upstream]) {
      open.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        open.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const proxy: Network = {
    port: (server.address() as AddressInfo).port,
    heads,
    target,
    down: false,
    cut() {
      for (const socket of open) socket.resetAndDestroy()
    },
    async [Symbol.asyncDispose]() {
      proxy.down = true
      proxy.cut()
      await new Promise(resolve => server.close(resolve))
    },
  }
  return proxy
}

/** The header of each connection, in order; undefined where it was not sent. */
export const headerOf = (heads: readonly string[], name: string): (string | undefined)[] =>
  heads.map(head => new RegExp(`^${name}: *(.*)\r?$`, 'im').exec(head)?.[1])
