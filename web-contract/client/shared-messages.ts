/** What a tab and the shared worker say to each other, one port for each connection of a tab. Types alone. */
import type { SseEvent } from './sse.ts'
import type { ConnectionState, Selection } from './types.ts'

/** Tabs whose wishes are equal in every field share a stream. */
export interface StreamWish {
  readonly url: string
  readonly selection: Selection
  readonly viewer: string
  readonly token?: string | undefined
  readonly history?: number | undefined
  readonly maxItems?: number | undefined
}

export type FromTab =
  | { readonly do: 'join'; readonly wish: StreamWish; readonly position: string | null }
  /** So many units of events were taken so far; also the answer to every `here`. */
  | { readonly do: 'took'; readonly units: number }
  | { readonly do: 'leave' }

export type FromHub =
  | { readonly say: 'event'; readonly event: SseEvent }
  /** The stream was interrupted: what stands of a half burst is void. */
  | { readonly say: 'interrupted'; readonly connection: Interrupted }
  /** No attempt follows. */
  | { readonly say: 'refused'; readonly status: number; readonly code: string }
  /** The worker lives, whatever the server does. Once a beat. */
  | { readonly say: 'here' }
  /** This tab has fallen too far behind, or answers no more; it may join anew. */
  | { readonly say: 'end' }

export type Interrupted = Extract<ConnectionState, { state: 'stale' | 'offline' }>

/** As much of a `MessagePort` as is used. */
export interface PortLike {
  postMessage(message: unknown): void
  addEventListener(name: 'message', listener: (event: { readonly data: unknown }) => void): void
  start(): void
  close(): void
}

/** What an event weighs in a tab's queue: its text, and something for the rest of it. */
export const unitsOf = (event: SseEvent): number => event.data.length + 128
