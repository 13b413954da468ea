import { connect, type Socket } from 'node:net'

/** What a raw viewer does with the bytes of its body, of which no chunk framing is left. */
export type OnBody = (bytes: Buffer) => void

const CR = 13
const LF = 10

/** One viewer as a bare socket: an HTTP/1.1 GET whose chunked answer is taken apart without a parser's help. */
export class RawStream {
  readonly socket: Socket
  readonly #onBody: OnBody
  #head = ''
  #inHead = true
  #left = 0
  #size = ''
  #skip = 0
  status = 0
  failed: Error | null = null

  constructor(url: URL, headers: Readonly<Record<string, string>>, onBody: OnBody) {
    this.#onBody = onBody
    this.socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true })
    this.socket.on('data', bytes => this.#feed(bytes))
    this.socket.on('error', error => {
      this.failed = error
    })
    const lines = Object.entries({ host: url.host, accept: 'text/event-stream', ...headers })
    const text = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
    this.socket.write(`GET ${url.pathname}${url.search} HTTP/1.1\r\n${text}\r\n`)
  }

  #feed(bytes: Buffer): void {
    let at = this.#inHead ? this.#readHead(bytes) : 0
    while (at < bytes.length) {
      if (this.#left > 0) {
        const end = Math.min(bytes.length, at + this.#left)
        this.#left -= end - at
        if (this.#left === 0) this.#skip = 2
        this.#onBody(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end))
        at = end
      } else if (this.#skip > 0) {
        this.#skip -= 1
        at += 1
      } else at = this.#readSize(bytes, at)
    }
  }

  #readHead(bytes: Buffer): number {
    const text = bytes.toString('latin1')
    const before = this.#head.length
    this.#head += text
    const end = this.#head.indexOf('\r\n\r\n')
    if (end < 0) return bytes.length
    this.#inHead = false
    this.status = Number(this.#head.slice(9, 12))
    const rest = end + 4 - before
    if (!/\r\ntransfer-encoding: chunked/i.test(this.#head)) this.#left = Number.POSITIVE_INFINITY
    this.#head = ''
    return rest
  }

  #readSize(bytes: Buffer, from: number): number {
    for (let at = from; at < bytes.length; at += 1) {
      const byte = bytes[at]
      if (byte === LF) {
        this.#left = Number.parseInt(this.#size, 16)
        this.#size = ''
        return at + 1
      }
      if (byte !== CR && byte !== undefined) this.#size += String.fromCharCode(byte)
    }
    return bytes.length
  }
}
