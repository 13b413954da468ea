import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import { asSeq, asStreamId, type Key, type StreamId } from '../journal/entry.ts'

/**
 * Ids of items and blocks: the place where they begin, as one AES block under a key of the journal. Equal
 * wherever the item is shown, telling nothing to anyone else of what lies between, and for us the way back
 * to the entry. 22 base64url characters.
 */
export interface Ids {
  of(stream: StreamId, key: Key): string
  /** The place an id of ours names; null for any other text. */
  open(id: string): { stream: StreamId; key: Key } | null
  /** A stand-in for a foreign id that may not go out as it is. */
  safe(id: string): string
}

const SAFE_ID = /^[\w.:+-]{1,128}$/
const OWN_ID = /^[\w-]{22}$/
const CACHED = 8_192
const ECB = 'aes-128-ecb'

/** `key` is 32 bytes: the first 16 encrypt places, all of it makes stand-ins. */
export function createIds(key: Buffer): Ids {
  const cipher = createCipheriv(ECB, key.subarray(0, 16), null).setAutoPadding(false)
  const decipher = createDecipheriv(ECB, key.subarray(0, 16), null).setAutoPadding(false)
  const cache = new Map<string, string>()
  const encrypt = (stream: StreamId, { seq, index }: Key): string => {
    // 32 bits stream, 48 seq, 24 index, and 24 zeros by which an id of ours is known.
    const block = Buffer.alloc(16)
    block.writeUInt32BE(stream, 0)
    block.writeUIntBE(seq, 4, 6)
    block.writeUIntBE(index, 10, 3)
    return cipher.update(block).toString('base64url')
  }
  return {
    of(stream, place) {
      const name = `${stream}:${place.seq}:${place.index}`
      let id = cache.get(name)
      if (id === undefined) {
        if (cache.size >= CACHED) cache.clear()
        id = encrypt(stream, place)
        cache.set(name, id)
      }
      return id
    },
    open(id) {
      if (!OWN_ID.test(id)) return null
      const block = decipher.update(Buffer.from(id, 'base64url'))
      if (block.readUIntBE(13, 3) !== 0) return null
      const key = { seq: asSeq(block.readUIntBE(4, 6)), index: block.readUIntBE(10, 3) }
      return { stream: asStreamId(block.readUInt32BE(0)), key }
    },
    safe(id) {
      if (SAFE_ID.test(id)) return id
      const digest = createHmac('sha256', key).update(id).digest()
      return `x-${digest.subarray(0, 12).toString('base64url')}`
    },
  }
}
