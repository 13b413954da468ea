import { ShojiError } from '../lib/error.ts'
import type { Ctx } from './context.ts'

const tooLarge = (): ShojiError => new ShojiError('payload_too_large', 'the body is too large')

/** Refuses a body that says itself that it is beyond the bound, before anything of the request is looked at. */
export function refuseLargeBody(c: Ctx, maxBytes: number): void {
  if (Number(c.req.header('content-length') ?? 0) > maxBytes) throw tooLarge()
}

/**
 * The body as JSON, told in length or sent in pieces; no more than `maxBytes` of it is read. Throws
 * `unsupported_media_type`, `payload_too_large`, or `bad_request` for what is no JSON.
 */
export async function readJsonBody(c: Ctx, maxBytes: number): Promise<unknown> {
  // A page of another site can send any other type without a preflight.
  if (!/^application\/json\s*(;|$)/i.test(c.req.header('content-type') ?? ''))
    throw new ShojiError('unsupported_media_type', 'send JSON')
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of (c.req.raw.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength
    if (bytes > maxBytes) throw tooLarge()
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch {
    throw new ShojiError('bad_request', 'the body is not JSON')
  }
}
