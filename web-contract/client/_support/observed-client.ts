import type { Frame } from '../../frames.ts'
import type { ClientState } from '../../state.ts'
import { createShojiClient } from '../client.ts'
import type { ConnectionState, ShojiClient, ShojiClientOptions } from '../types.ts'

export interface ObservedClient extends ShojiClient, Disposable {
  readonly states: readonly ClientState[]
  readonly frames: readonly Frame[]
  readonly connections: readonly ConnectionState[]
  /** Resolves once the condition holds; asked again whenever the client says something. */
  until(condition: (client: ObservedClient) => boolean): Promise<void>
}

/** A client that keeps all that it said, closed at the end of the block. */
export function observedClient(
  options: Pick<ShojiClientOptions, 'url'> & Partial<ShojiClientOptions>,
): ObservedClient {
  const states: ClientState[] = []
  const frames: Frame[] = []
  const connections: ConnectionState[] = []
  const waiting = new Set<() => void>()
  const said = (): void => {
    for (const ask of [...waiting]) ask()
  }
  const client = createShojiClient({
    selection: { runtime: 'rt', worker: 'w' },
    random: () => 0,
    ...options,
    onState(state) {
      states.push(state)
      options.onState?.(state)
      said()
    },
    onFrame(frame) {
      frames.push(frame)
      options.onFrame?.(frame)
      said()
    },
    onConnection(connection) {
      connections.push(connection)
      options.onConnection?.(connection)
      said()
    },
  })
  const observed: ObservedClient = Object.assign(Object.create(client), {
    states,
    frames,
    connections,
    until: (condition: (c: ObservedClient) => boolean) =>
      new Promise<void>(resolve => {
        const ask = (): void => {
          if (!condition(observed)) return
          waiting.delete(ask)
          resolve()
        }
        waiting.add(ask)
        ask()
      }),
    [Symbol.dispose]: () => client.close(),
  })
  return observed
}
