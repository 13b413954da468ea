import type { JsonObject } from './json.ts'

/**
 * The two Runtimes that exist: `events-ws` numbers its envelopes and has integer worker ids,
 * `protocol-ws` sends bare events and has UUIDv7 worker ids.
 */
export type Generation = 'events-ws' | 'protocol-ws'

/** One protocol event as it stands in an envelope's `payload`; unit events have no `data`. */
export type RuntimeEvent = { readonly event: string; readonly data?: JsonObject }

export type WorkerActivity = 'idle' | 'running' | 'paused'

export const status = (activity: WorkerActivity): RuntimeEvent => ({
  event: 'status',
  data: { status: activity },
})

export const errorEvent = (code: string, message: string): RuntimeEvent => ({
  event: 'error',
  data: { code, message },
})

export const cancelled = errorEvent('internal', 'Cancelled')

export const usage = (input: number, output: number, cacheRead = 0): RuntimeEvent => ({
  event: 'usage',
  data: { input_tokens: input, output_tokens: output, cache_read_input_tokens: cacheRead },
})
