/** What fan-out is held against, each with the same frames over the same HTTP/1.1 streams. One process serves one of them. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { createChannel, createSession } from 'better-sse'
import { Hono } from 'hono'
import { streamSSE } from 'hono/streaming'
import { pace } from '../support/pace.ts'
import { configOf, serveChild } from '../support/serve-child.ts'
import { STAMP_HOLE, stampText } from '../support/stamp.ts'

export type Peer = 'floor' | 'res.write' | 'hono/streaming' | 'better-sse'

export interface PeerConfig {
  readonly peer: Peer
  /** One frame as Shoji sends it, with its stamp at the place of `STAMP_HOLE`. */
  readonly template: string
}

const FLUSH_MS = 5

const { peer, template } = configOf<PeerConfig>()
const frameOf = (dueUs: number): string => template.replace(STAMP_HOLE, stampText(dueUs))

/** The parts of the frame, for those that write them themselves. */
const field = (name: string): string => new RegExp(`^${name}: (.*)$`, 'm').exec(template)?.[1] ?? ''
const event = field('event')
const id = field('id')
const data = field('data')

interface Serving {
  readonly port: number
  readonly send: (dueUs: number) => void
}

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
}

const bareServer = (): Promise<{ port: number; viewers: Set<ServerResponse> }> => {
  const viewers = new Set<ServerResponse>()
  const server = createServer((_request, response) => {
    response.writeHead(200, HEADERS)
    response.write(': open\n\n')
    response.socket?.setNoDelay(true)
    viewers.add(response)
    response.on('close', () => viewers.delete(response))
  })
  return new Promise(resolve =>
    server.listen(0, '127.0.0.1', () => resolve({ port: (server.address() as AddressInfo).port, viewers })),
  )
}

/** One prepared buffer for all viewers and 5 ms. */
const floor = async (): Promise<Serving> => {
  const { port, viewers } = await bareServer()
  let text = ''
  const flush = (): void => {
    const bytes = Buffer.from(text)
    text = ''
    for (const viewer of viewers) viewer.write(bytes)
  }
  return {
    port,
    send(dueUs) {
      if (text === '') setTimeout(flush, FLUSH_MS)
      text += frameOf(dueUs)
    },
  }
}

/** One prepared buffer an event, written to each viewer at once. */
const resWrite = async (): Promise<Serving> => {
  const { port, viewers } = await bareServer()
  return {
    port,
    send(dueUs) {
      const bytes = Buffer.from(frameOf(dueUs))
      for (const viewer of viewers) viewer.write(bytes)
    },
  }
}

const honoStreaming = async (): Promise<Serving> => {
  const streams = new Set<{
    writeSSE: (message: { event: string; id: string; data: string }) => Promise<void>
  }>()
  const app = new Hono()
  app.get('/', c =>
    streamSSE(c, async stream => {
      await stream.writeSSE({ event: 'open', id, data: '' })
      streams.add(stream)
      await new Promise<void>(resolve => stream.onAbort(resolve))
      streams.delete(stream)
    }),
  )
  const server = createAdaptorServer({ fetch: app.fetch })
  const port = await new Promise<number>(resolve =>
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port)),
  )
  return {
    port,
    send(dueUs) {
      const message = { event, id, data: data.replace(STAMP_HOLE, stampText(dueUs)) }
      for (const stream of streams) void stream.writeSSE(message)
    },
  }
}

const betterSse = async (): Promise<Serving> => {
  const channel = createChannel()
  const server = createServer(async (request, response) => {
    channel.register(await createSession(request, response, { keepAlive: null }))
  })
  const port = await new Promise<number>(resolve =>
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port)),
  )
  return {
    port,
    send(dueUs) {
      channel.broadcast(JSON.parse(data.replace(STAMP_HOLE, stampText(dueUs))), event, { eventId: id })
    },
  }
}

const SERVE: Record<Peer, () => Promise<Serving>> = {
  floor,
  'res.write': resWrite,
  'hono/streaming': honoStreaming,
  'better-sse': betterSse,
}

const { port, send } = await SERVE[peer]()

serveChild(
  { url: `http://127.0.0.1:${port}/` },
  {
    publish: ({ perSecond, seconds }: { perSecond: number; seconds: number }) =>
      pace(perSecond, seconds, send),
    stop: () => undefined,
  },
)
