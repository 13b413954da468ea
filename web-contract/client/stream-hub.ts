/**
 * Holds each stream once for all tabs of a browser: HTTP/1.1 allows six connections per host, and a stream
 * takes one for good. Runs in a shared worker, which lives as long as any of its tabs.
 */
import { type HeldStream, holdStream, type Member } from './held-stream.ts'
import { type FromHub, type FromTab, type PortLike, type StreamWish, unitsOf } from './shared-messages.ts'

/** Streams without a tab keep their place, so that the next tab resumes; more than so many are forgotten. */
const IDLE_MAX = 4
/** A tab that is frozen takes nothing: what waits for it is bounded, and it joins anew when it wakes. */
const BEHIND_UNITS_MAX = 16 * 1024 * 1024
/** A tab that crashed says nothing of it. */
const UNANSWERED_MAX = 8

export interface StreamHub {
  /** A tab's port, which will say what it wishes. */
  connect(port: PortLike): void
  close(): void
}

export function createStreamHub(): StreamHub {
  const streams = new Map<string, HeldStream>()

  function join(wish: StreamWish): HeldStream {
    const key = JSON.stringify(wish)
    const stream = streams.get(key) ?? holdStream(wish, () => forget(key))
    // The newest last, so that the idle ones that are forgotten are the oldest.
    streams.delete(key)
    streams.set(key, stream)
    return stream
  }

  function forget(key: string): void {
    streams.get(key)?.close()
    streams.delete(key)
  }

  function forgetIdle(): void {
    const idle = [...streams].filter(([, stream]) => stream.idle)
    for (const [key] of idle.slice(0, -IDLE_MAX)) forget(key)
  }

  return {
    connect(port) {
      let member: Member | undefined
      let stream: HeldStream | undefined
      let sent = 0
      let took = 0
      /** What the greeting weighed: a tab is not behind because it has just come. */
      let greeting = 0
      let unanswered = 0
      const leave = (): void => {
        if (member !== undefined) stream?.leave(member)
        member = undefined
        port.close()
        forgetIdle()
      }
      const say = (message: FromHub): void => port.postMessage(message)
      const end = (): void => {
        say({ say: 'end' })
        leave()
      }
      port.addEventListener('message', ({ data }) => {
        const message = data as FromTab
        if (message.do === 'leave') leave()
        else if (message.do === 'took') {
          took = message.units
          unanswered = 0
        } else if (member === undefined) {
          member = {
            say,
            leave: end,
            send(event) {
              sent += unitsOf(event)
              say({ say: 'event', event })
              if (sent - took - greeting > BEHIND_UNITS_MAX) end()
            },
            ask() {
              unanswered += 1
              if (unanswered > UNANSWERED_MAX) return false
              say({ say: 'here' })
              return true
            },
          }
          say({ say: 'here' })
          greeting = Number.POSITIVE_INFINITY
          stream = join(message.wish)
          stream.join(member, message.position)
          greeting = sent
        }
      })
      port.start()
    },
    close() {
      for (const key of [...streams.keys()]) forget(key)
    },
  }
}
