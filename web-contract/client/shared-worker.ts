/**
 * The whole script of a shared worker: `serveSharedStreams()`. A page hands the worker to its clients as
 * `share: {connect: () => new SharedWorker(…), viewer}`.
 */
import type { PortLike } from './shared-messages.ts'
import { createStreamHub } from './stream-hub.ts'

/** Takes every tab that connects, for as long as the worker lives. */
export function serveSharedStreams(): void {
  const hub = createStreamHub()
  globalThis.addEventListener('connect', event => {
    for (const port of (event as MessageEvent).ports) hub.connect(port as PortLike)
  })
}
