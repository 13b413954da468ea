import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'

export interface Accepted {
  readonly ws: WebSocket
  readonly socket: Duplex
  readonly request: IncomingMessage
  /** Answers the fence's ping, which waits until then. */
  pong(): void
  /** Resolves with the next ping that has not been awaited yet. */
  nextPing(): Promise<Buffer>
  /** Resolves when the socket is gone. */
  readonly gone: Promise<unknown>
}

export interface WireServer extends AsyncDisposable {
  readonly url: string
  readonly requests: IncomingMessage[]
  /** Answers a plain request. */
  onRequest: (request: IncomingMessage, response: ServerResponse, body: string) => void
  /** Answers an upgrade with these bytes instead of 101. */
  refuse: ((path: string) => string | undefined) | undefined
  /** Resolves with the next socket that was accepted and not awaited yet. */
  accepted(): Promise<Accepted>
  readonly open: number
}

/** An HTTP answer as it stands on the wire. */
export const rawAnswer = (status: number, body = '', headers: Record<string, string> = {}): string => {
  const lines = Object.entries({
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
    ...headers,
  })
  return `HTTP/1.1 ${status} x\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`
}

/** A socket server that says nothing by itself, not even a pong: each test is the Runtime. */
export const startWireServer = async (): Promise<WireServer> => {
  const queue: Accepted[] = []
  const waiting: ((accepted: Accepted) => void)[] = []
  const sockets = new Set<Duplex>()
  const wss = new WebSocketServer({ noServer: true, autoPong: false, perMessageDeflate: false })
  const http = createServer()
  const server: WireServer = {
    url: '',
    requests: [],
    onRequest: (_request, response) => response.end('{}'),
    refuse: undefined,
    accepted: () =>
      new Promise(resolve => {
        const next = queue.shift()
        if (next === undefined) waiting.push(resolve)
        else resolve(next)
      }),
    get open() {
      return wss.clients.size
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      http.closeAllConnections()
      http.close()
      await once(http, 'close')
    },
  }
  http.on('connection', socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  http.on('request', (request, response) => {
    server.requests.push(request)
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => server.onRequest(request, response, Buffer.concat(chunks).toString()))
  })
  http.on('upgrade', (request, socket, head) => {
    server.requests.push(request)
    socket.on('error', () => undefined)
    const refusal = server.refuse?.(request.url ?? '')
    if (refusal !== undefined) {
      socket.end(refusal)
      return
    }
    wss.handleUpgrade(request, socket, head, ws => {
      const pings: Buffer[] = []
      const wanted: ((ping: Buffer) => void)[] = []
      let last: Buffer = Buffer.alloc(0)
      ws.on('error', () => undefined)
      ws.on('ping', data => {
        last = data
        const take = wanted.shift()
        if (take === undefined) pings.push(data)
        else take(data)
      })
      const accepted: Accepted = {
        ws,
        socket,
        request,
        pong: () => ws.pong(last),
        nextPing: () =>
          new Promise(resolve => {
            const ping = pings.shift()
            if (ping === undefined) wanted.push(resolve)
            else resolve(ping)
          }),
        gone: once(ws, 'close'),
      }
      const take = waiting.shift()
      if (take === undefined) queue.push(accepted)
      else take(accepted)
    })
  })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  return Object.assign(server, { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}` })
}
