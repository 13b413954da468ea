import type { AddressInfo } from 'node:net'
import { connect, createServer, type Server, type Socket } from 'node:net'

export interface CuttingProxy extends AsyncDisposable {
  readonly url: string
  readonly port: number
  /** Connections that were taken, in all. */
  readonly taken: number
  readonly open: number
  /** Ends every connection, or each that is chosen, without a word. Returns how many. */
  cut(chosen?: () => boolean): number
  /** Connections that were refused, in all. */
  readonly refused: number
  /** None is taken until `allow`. Those that are open stay. */
  refuse(): void
  allow(): void
  /** Later connections lead there. */
  lead(target: string): void
  /** Open connections, or those chosen, stay open and nothing passes over them, in either direction. Returns how many. */
  stall(chosen?: () => boolean): number
  /** Ends all stalls: what waited passes. */
  unstall(): void
}

/** A TCP proxy on a port of its own before `target` (a URL), for what networks do to streams. */
export async function startCuttingProxy(target: string): Promise<CuttingProxy> {
  let leadsTo = new URL(target)
  const pairs = new Set<readonly [Socket, Socket]>()
  const stalled = new Set<readonly [Socket, Socket]>()
  let refusing = false
  let taken = 0
  let refused = 0

  const server = createServer(client => {
    if (refusing) {
      refused += 1
      client.resetAndDestroy()
      return
    }
    taken += 1
    const upstream = connect(Number(leadsTo.port), leadsTo.hostname)
    const pair = [client, upstream] as const
    pairs.add(pair)
    const end = (): void => {
      pairs.delete(pair)
      stalled.delete(pair)
      for (const socket of pair) socket.destroy()
    }
    for (const socket of pair) {
      socket.setNoDelay(true)
      socket.on('error', end)
      socket.on('close', end)
    }
    client.pipe(upstream)
    upstream.pipe(client)
  })
  const port = await listen(server)

  const pick = (chosen: () => boolean): (readonly [Socket, Socket])[] => [...pairs].filter(() => chosen())
  const cut = (chosen = () => true): number => {
    const picked = pick(chosen)
    for (const [client, upstream] of picked) {
      client.resetAndDestroy()
      upstream.destroy()
    }
    return picked.length
  }
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    get taken() {
      return taken
    },
    get open() {
      return pairs.size
    },
    get refused() {
      return refused
    },
    cut,
    lead(to) {
      leadsTo = new URL(to)
    },
    refuse() {
      refusing = true
    },
    allow() {
      refusing = false
    },
    stall(chosen = () => true) {
      const picked = pick(chosen)
      for (const pair of picked) {
        const [client, upstream] = pair
        stalled.add(pair)
        client.unpipe(upstream)
        upstream.unpipe(client)
        client.pause()
        upstream.pause()
      }
      return picked.length
    },
    unstall() {
      for (const [client, upstream] of stalled) {
        client.pipe(upstream)
        upstream.pipe(client)
      }
      stalled.clear()
    },
    async [Symbol.asyncDispose]() {
      cut()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

const listen = (server: Server): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
