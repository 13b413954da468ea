/** The viewers of a bench, in a process of their own: raw sockets that count, and nothing of an SSE client. */
import { setTimeout as delay } from 'node:timers/promises'
import { RawStream } from '../support/raw-stream.ts'
import { serveChild } from '../support/serve-child.ts'
import { nowUs, readStamp } from '../support/stamp.ts'
import { Latencies } from '../support/stats.ts'

/** `open` resolves when each viewer has seen the text `until`, or some bytes where it is not given. */
export interface OpenViewers {
  readonly targets: readonly { readonly url: string; readonly headers?: Readonly<Record<string, string>> }[]
  readonly until?: string
  /** Frames are looked at one by one: for beats. Too dear for fan-out. */
  readonly parse?: boolean
}

export interface ViewersReport {
  readonly viewers: number
  readonly bytesMin: number
  readonly bytesMax: number
  readonly bytesTotal: number
  /** Frames of those viewers whose frames are counted one by one, the fewest and the most. */
  readonly framesMin: number
  readonly framesMax: number
  readonly framesCounted: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  readonly lastUs: number
  readonly beats: number
  readonly beatGapMaxMs: number
  readonly beatGapP99Ms: number
  readonly broken: number
}

export interface ResumeTimes {
  readonly firstEnvelopeMs: number
  readonly caughtUpMs: number
  readonly envelopes: number
  readonly bytes: number
}

/** Every so many viewers one counts its frames by scanning; the others count bytes. */
const SCAN_EVERY = 25
const TAIL_CHARS = 4_096
const OPEN_MS = 30_000

interface Viewer {
  readonly stream: RawStream
  readonly scans: boolean
  bytes: number
  frames: number
  /** The last byte was a line break: the next may end a frame. */
  broke: boolean
  text: string
  beatUs: number
}

const viewers: Viewer[] = []
const latencies = new Latencies()
const beatGaps = new Latencies()
let frameBytes = Number.POSITIVE_INFINITY
let lastUs = 0
let maxMs = 0
let beats = 0
let beatGapMaxMs = 0
let counting = false

const BREAK = 10

const countFrames = (viewer: Viewer, bytes: Buffer): void => {
  let from = 0
  if (viewer.broke && bytes[0] === BREAK) {
    viewer.frames += 1
    from = 1
  }
  for (;;) {
    const at = bytes.indexOf('\n\n', from, 'latin1')
    if (at < 0) break
    viewer.frames += 1
    from = at + 2
  }
  viewer.broke = bytes.at(-1) === BREAK && from < bytes.length
}

const noteBeat = (viewer: Viewer, at: number): void => {
  if (viewer.beatUs > 0 && counting) {
    const gapUs = at - viewer.beatUs
    beats += 1
    beatGaps.add(gapUs)
    beatGapMaxMs = Math.max(beatGapMaxMs, gapUs / 1000)
  }
  viewer.beatUs = at
}

const takeFrames = (viewer: Viewer, bytes: Buffer, at: number): void => {
  viewer.text += bytes.toString('latin1')
  for (let end = viewer.text.indexOf('\n\n'); end >= 0; end = viewer.text.indexOf('\n\n')) {
    const frame = viewer.text.slice(0, end)
    viewer.text = viewer.text.slice(end + 2)
    if (frame.includes('event: beat')) noteBeat(viewer, at)
    else if (frame.includes('event: envelope')) viewer.frames += 1
  }
}

const take = (viewer: Viewer, bytes: Buffer, parse: boolean): void => {
  viewer.bytes += bytes.length
  const at = nowUs()
  if (parse) takeFrames(viewer, bytes, at)
  else if (viewer.scans) countFrames(viewer, bytes)
  if (!counting) return
  const dueUs = readStamp(bytes)
  if (!(dueUs > 0)) return
  lastUs = at
  // The first stamp of a piece is the oldest: the whole piece counts as that late.
  latencies.add(at - dueUs, Math.max(1, Math.round(bytes.length / frameBytes)))
  maxMs = Math.max(maxMs, (at - dueUs) / 1000)
}

const open = async ({ targets, until, parse = false }: OpenViewers): Promise<{ bytes: number }> => {
  let opened = 0
  for (const { url, headers = {} } of targets) {
    const tail = { text: '', seen: false }
    const viewer: Viewer = {
      scans: parse || viewers.length % SCAN_EVERY === 0,
      bytes: 0,
      frames: 0,
      broke: false,
      text: '',
      beatUs: 0,
      stream: new RawStream(new URL(url), headers, bytes => {
        take(viewer, bytes, parse)
        if (tail.seen) return
        tail.text = (tail.text + bytes.toString('latin1')).slice(-TAIL_CHARS)
        if (until !== undefined && !tail.text.includes(until)) return
        tail.seen = true
        opened += 1
      }),
    }
    viewers.push(viewer)
    // A few at a time: the accept queue is no part of the bench.
    if (viewers.length % 50 === 0) await delay(5)
  }
  const deadline = Date.now() + OPEN_MS
  while (opened < targets.length) {
    if (Date.now() > deadline) throw new Error(`only ${opened} of ${targets.length} viewers opened`)
    await delay(5)
  }
  return { bytes: viewers[0]?.bytes ?? 0 }
}

const report = (): ViewersReport => {
  const bytes = viewers.map(viewer => viewer.bytes)
  const frames = viewers.filter(viewer => viewer.scans).map(viewer => viewer.frames)
  return {
    viewers: viewers.length,
    bytesMin: Math.min(...bytes),
    bytesMax: Math.max(...bytes),
    bytesTotal: bytes.reduce((a, b) => a + b, 0),
    framesMin: Math.min(...frames),
    framesMax: Math.max(...frames),
    framesCounted: frames.length,
    p50Ms: latencies.quantileMs(0.5),
    p99Ms: latencies.quantileMs(0.99),
    maxMs,
    lastUs,
    beats,
    beatGapMaxMs,
    beatGapP99Ms: beatGaps.quantileMs(0.99),
    broken: viewers.filter(({ stream }) => stream.failed !== null || stream.status !== 200).length,
  }
}

/** Opens one stream with a cursor, times its first envelope and its `caught_up`, and closes it. */
const resume = (url: string, cursor: string): Promise<ResumeTimes> =>
  new Promise((resolve, reject) => {
    const started = nowUs()
    let text = ''
    let firstUs = 0
    let bytes = 0
    const stream = new RawStream(new URL(url), { 'last-event-id': cursor }, part => {
      const at = nowUs()
      bytes += part.length
      text += part.toString('latin1')
      if (firstUs === 0 && text.includes('event: envelope')) firstUs = at
      if (!text.includes('event: caught_up') || !text.endsWith('\n\n')) return
      stream.socket.destroy()
      const envelopes = text.split('event: envelope').length - 1
      if (!text.includes('"outcome":"resumed"') || envelopes === 0)
        reject(new Error(`not resumed: ${text.slice(0, 400)}`))
      else
        resolve({
          firstEnvelopeMs: (firstUs - started) / 1000,
          caughtUpMs: (at - started) / 1000,
          envelopes,
          bytes,
        })
    })
    stream.socket.on('error', reject)
  })

serveChild(
  {},
  {
    open,
    /** Counts anew; `frameBytes` weighs a piece by the frames in it. */
    mark(at: { frameBytes?: number }) {
      frameBytes = at.frameBytes ?? Number.POSITIVE_INFINITY
      for (const viewer of viewers) {
        viewer.bytes = 0
        viewer.frames = 0
        viewer.beatUs = 0
      }
      latencies.clear()
      beatGaps.clear()
      lastUs = 0
      maxMs = 0
      beats = 0
      beatGapMaxMs = 0
      counting = true
    },
    /** Resolves when every viewer has so many bytes, or none came for a while; then reports. */
    async settled({
      bytes,
      quietMs = 300,
      maxMs: longest = 5_000,
    }: {
      bytes: number
      quietMs?: number
      maxMs?: number
    }) {
      const deadline = Date.now() + longest
      let before = -1
      let since = Date.now()
      for (;;) {
        const total = viewers.reduce((sum, viewer) => sum + viewer.bytes, 0)
        if (total !== before) {
          before = total
          since = Date.now()
        }
        if (viewers.every(viewer => viewer.bytes >= bytes)) break
        if (Date.now() - since > quietMs || Date.now() > deadline) break
        await delay(5)
      }
      return report()
    },
    report,
    resume: ({ url, cursor }: { url: string; cursor: string }) => resume(url, cursor),
    close() {
      for (const { stream } of viewers.splice(0)) stream.socket.destroy()
    },
    stop() {
      for (const { stream } of viewers.splice(0)) stream.socket.destroy()
    },
  },
)
