import { once } from 'node:events'
import { WebSocket } from 'ws'

/** A client of an observation socket that reads as dialogue: `await client.next()`. */
export interface ObservationClient extends AsyncDisposable {
  /** Text frames, pongs (`pong <data>`) and binary frames (`binary <hex>`), as they came. */
  readonly heard: readonly string[]
  readonly socket: WebSocket
  /** The next one not yet taken; rejects after 5 s or when the connection ended without it. */
  next(): Promise<string>
  /** The next so many. */
  take(count: number): Promise<string[]>
  /** Pings, and resolves with what came before the pong. */
  fence(): Promise<string[]>
  /** The close code, once the connection ended. */
  readonly closed: Promise<number>
}

const patienceMs = 5_000

/** Opens a connection; rejects with the status of a refusal as its message. */
export const observe = async (
  baseUrl: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<ObservationClient> => {
  const socket = new WebSocket(baseUrl.replace('http', 'ws') + path, { headers })
  const heard: string[] = []
  let taken = 0
  let ended = false
  let wake: () => void = () => undefined
  const hear = (what: string): void => {
    heard.push(what)
    wake()
  }
  socket.on('message', (data: Buffer, binary) =>
    hear(binary ? `binary ${data.toString('hex')}` : data.toString()),
  )
  socket.on('pong', data => hear(`pong ${data.toString()}`))
  const closed = new Promise<number>(resolve => {
    socket.on('close', code => {
      ended = true
      wake()
      resolve(code)
    })
  })
  const refused = new Promise<never>((_resolve, reject) => {
    socket.on('unexpected-response', (request, response) => {
      request.destroy()
      reject(new Error(String(response.statusCode)))
    })
  })
  socket.on('error', () => undefined)
  await Promise.race([once(socket, 'open'), refused])
  refused.catch(() => undefined)

  const next = async (): Promise<string> => {
    const deadline = Date.now() + patienceMs
    while (taken >= heard.length) {
      if (ended) throw new Error('the connection ended')
      const woken = new Promise<void>(resolve => {
        wake = resolve
      })
      const timer = setTimeout(wake, Math.max(0, deadline - Date.now()))
      await woken
      clearTimeout(timer)
      if (Date.now() >= deadline && taken >= heard.length) throw new Error('nothing was heard')
    }
    taken += 1
    return heard[taken - 1] ?? ''
  }
  const take = async (count: number): Promise<string[]> => {
    const out: string[] = []
    while (out.length < count) out.push(await next())
    return out
  }
  let fences = 0
  return {
    heard,
    socket,
    next,
    take,
    closed,
    async fence() {
      fences += 1
      const name = `fence-${fences}`
      socket.ping(name)
      const before: string[] = []
      for (;;) {
        const one = await next()
        if (one === `pong ${name}`) return before
        before.push(one)
      }
    },
    async [Symbol.asyncDispose]() {
      socket.terminate()
      await closed
    },
  }
}
