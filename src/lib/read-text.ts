import { open } from 'node:fs/promises'
import { ShojiError } from './error.ts'

/** Reads a text file of at most `maxBytes`. Rejects with the system's error, or `payload_too_large`, or `bad_request` if it is not UTF-8. */
export type ReadText = (path: string, maxBytes: number) => Promise<string>

/** Reads up to the bound whatever the file claims to be: a device or a pipe has no size to ask for. */
export const readText: ReadText = async (path, maxBytes) => {
  const file = await open(path, 'r')
  try {
    const buffer = Buffer.allocUnsafe(maxBytes + 1)
    let length = 0
    while (length <= maxBytes) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length, null)
      if (bytesRead === 0) break
      length += bytesRead
    }
    if (length > maxBytes) throw new ShojiError('payload_too_large', `larger than ${maxBytes} bytes`)
    return decode(buffer.subarray(0, length))
  } finally {
    await file.close()
  }
}

/** A byte order mark is dropped. */
const decode = (bytes: Uint8Array): string => {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new ShojiError('bad_request', 'not UTF-8 text', { cause })
  }
}

/** Why a file could not be read, in words fit for its owner; names no path and no content. */
export const readFailure = (error: unknown): string => {
  if (error instanceof ShojiError) return error.message
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 'ENOENT':
      return 'no such file'
    case 'EACCES':
    case 'EPERM':
      return 'not permitted'
    case 'EISDIR':
      return 'is a directory'
    default:
      return typeof code === 'string' ? code : 'unreadable'
  }
}
