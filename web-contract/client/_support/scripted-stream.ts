import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** One request of a client, answered by the test line by line. */
export interface Connection {
  readonly request: IncomingMessage
  readonly lastEventId: string | undefined
  readonly cursor: string | null
  /** Resolves when the connection is gone, whoever ended it. */
  readonly gone: Promise<void>
  /** Answers 200 as an event stream if nothing was answered yet, and writes. */
  send(...parts: (string | Uint8Array)[]): void
  answer(status: number, headers: Record<string, string>, body: string): void
  /** An orderly end of the answer. */
  end(): void
  /** The socket is gone without a word. */
  cut(): void
}

export interface ScriptedStream {
  readonly url: string
  /** The next connection that was not taken yet. */
  next(): Promise<Connection>
  readonly opened: number
  /** Streams that are open at the moment. */
  readonly open: number
  [Symbol.asyncDispose](): Promise<void>
}

/** A real HTTP server on a free port whose answers the test writes. */
export async function scriptedStream(port = 0): Promise<ScriptedStream> {
  const waiting: Connection[] = []
  const takers: ((connection: Connection) => void)[] = []
  let opened = 0
  let open = 0
  const server = createServer((request, response) => {
    opened += 1
    open += 1
    response.once('close', () => {
      open -= 1
    })
    const connection = connect(request, response)
    const taker = takers.shift()
    if (taker === undefined) waiting.push(connection)
    else taker(connection)
  })
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    next: () => {
      const ready = waiting.shift()
      return ready === undefined ? new Promise(resolve => takers.push(resolve)) : Promise.resolve(ready)
    },
    get opened() {
      return opened
    },
    get open() {
      return open
    },
    [Symbol.asyncDispose]: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function connect(request: IncomingMessage, response: ServerResponse): Connection {
  const header = request.headers['last-event-id']
  return {
    request,
    lastEventId: Array.isArray(header) ? header[0] : header,
    cursor: new URL(request.url ?? '', 'http://host').searchParams.get('cursor'),
    gone: new Promise(resolve => response.once('close', resolve)),
    send(...parts) {
      if (!response.headersSent)
        response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
      for (const part of parts) response.write(part)
    },
    answer(status, headers, body) {
      response.writeHead(status, headers)
      response.end(body)
    },
    end: () => response.end(),
    cut: () => response.destroy(),
  }
}
