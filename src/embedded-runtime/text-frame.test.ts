import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { textFrame } from './text-frame.ts'

test.each([0, 1, 125, 126, 65_535, 65_536, 200_000])(
  'is read by a WebSocket client with %i bytes',
  async bytes => {
    const text = 'x'.repeat(Math.max(0, bytes - 3)) + (bytes >= 3 ? '漢' : 'y'.repeat(bytes))
    const server = createServer(socket => {
      socket.once('data', request => {
        const key = /sec-websocket-key: (.*)\r\n/i.exec(request.toString())?.[1] ?? ''
        const accept = createHash('sha1')
          .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
          .digest('base64')
        socket.write(
          `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
        )
        socket.write(textFrame(text))
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' && address ? address.port : 0
    const client = new WebSocket(`ws://127.0.0.1:${port}/`)
    const [data, binary] = await once(client, 'message')
    expect(binary).toBe(false)
    expect(String(data)).toBe(text)
    client.terminate()
    server.close()
  },
)
