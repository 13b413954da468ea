import { createStreamHub } from '../stream-hub.ts'
import type { SharedWorkerLike } from '../types.ts'

/** The shared worker of one browser, in this process; real ports between it and each tab. */
export function sharedBrowser() {
  const hub = createStreamHub()
  const ports: MessagePort[] = []
  return {
    /** A tab's end of each connection, in order. */
    ports,
    /** A port that no client is behind. */
    take: (port: MessagePort): void => hub.connect(port),
    connect(): SharedWorkerLike {
      const { port1, port2 } = new MessageChannel()
      ports.push(port1)
      hub.connect(port2)
      return { port: port1, addEventListener() {} }
    },
    [Symbol.dispose](): void {
      hub.close()
      for (const port of ports) port.close()
    },
  }
}
