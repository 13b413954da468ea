import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
import { asSeq, type Key, SEQ_MAX, type Seq } from './entry.ts'
import type { Generation } from './journal.ts'

/**
 * A cursor is one AES-128 block: generation (32 bits), seq (48), salt (16), tag (32). A position of a page
 * is two, chained, under a key of its own: the same with the index (32), the tag again and 64 zero bits.
 *
 * A text decodes only if its generation is known, its seq lies in that generation's range and its tag is the
 * asker's, so it never names another entry: not after a crash, a lost end of the WAL, or a backup put back.
 * It grants nothing. The salt makes all ids look new, so that equal positions cannot be told.
 */
export interface Cursors {
  /** 22 characters. Of `tag` the first 4 bytes count. Throws a RangeError for a position beyond the durable head. */
  encode(seq: Seq, tag: Uint8Array): string
  decode(text: string, tag: Uint8Array): Decoded<{ readonly seq: Seq }>
  /** 43 characters. */
  encodePage(key: Key, tag: Uint8Array): string
  decodePage(text: string, tag: Uint8Array): Decoded<{ readonly key: Key }>
}

type CursorFault = 'cursor_malformed' | 'cursor_unknown' | 'view_changed'
type Decoded<T> = ({ readonly ok: true } & T) | { readonly ok: false; readonly reason: CursorFault }

export interface CursorOptions {
  /** 16 bytes. */
  readonly key: Buffer
  readonly generations: () => readonly Generation[]
  /** The durable head. */
  readonly head: () => Seq
  readonly random?: (size: number) => Buffer
}

const BLOCK_BYTES = 16
const INDEX_MAX = 2 ** 32 - 1
/** Salts are drawn so many at a time: a call of the generator costs more than a block of AES. */
const SALTS = 2048

/** 22 and 43 characters hold 132 and 258 bits: the 4 and 2 that are over must be zero. */
const CURSOR = /^[A-Za-z0-9_-]{21}[AQgw]$/
const PAGE = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/

const refused = (reason: CursorFault): { readonly ok: false; readonly reason: CursorFault } => ({
  ok: false,
  reason,
})

const bitsOf = (tag: Uint8Array): number =>
  (((tag[0] ?? 0) << 24) | ((tag[1] ?? 0) << 16) | ((tag[2] ?? 0) << 8) | (tag[3] ?? 0)) >>> 0

/** ECB is a single block here: what makes it unsafe, equal blocks of one message, cannot occur. */
const blockCipher = (key: Buffer) => {
  const encrypt = createCipheriv('aes-128-ecb', key, null)
  const decrypt = createDecipheriv('aes-128-ecb', key, null)
  encrypt.setAutoPadding(false)
  decrypt.setAutoPadding(false)
  return {
    encrypt: (block: Buffer) => encrypt.update(block),
    decrypt: (block: Buffer) => decrypt.update(block),
  }
}

const saltsFrom = (random: (size: number) => Buffer): (() => number) => {
  let pool: Buffer = Buffer.alloc(0)
  let at = 0
  return () => {
    if (at === pool.length) {
      pool = random(SALTS * 2)
      at = 0
    }
    const salt = pool.readUInt16BE(at)
    at += 2
    return salt
  }
}

const xorInto = (block: Buffer, mask: Buffer): void => {
  for (let i = 0; i < BLOCK_BYTES; i++) block.writeUInt8(block.readUInt8(i) ^ mask.readUInt8(i), i)
}

export const createCursors = (options: CursorOptions): Cursors => {
  const { generations, head } = options
  const salt = saltsFrom(options.random ?? randomBytes)
  const events = blockCipher(options.key)
  const pages = blockCipher(
    createHmac('sha256', options.key).update('page').digest().subarray(0, BLOCK_BYTES),
  )

  /** The last generation that may name the position: its range begins before its first. */
  const generationOf = (seq: number): number => {
    if (seq > head()) throw new RangeError(`position ${seq} is not durable`)
    const all = generations()
    for (let i = all.length - 1; i >= 0; i--) {
      const generation = all[i]
      // Before the oldest that is still known: a position that will be refused, as it should be.
      if (generation !== undefined && (generation.first - 1 <= seq || i === 0)) return generation.id
    }
    throw new RangeError('no generation is open')
  }

  const inRange = (id: number, seq: number): boolean => {
    const all = generations()
    const at = all.findIndex(generation => generation.id === id)
    const generation = all[at]
    if (generation === undefined) return false
    const next = all[at + 1]
    return seq >= generation.first - 1 && seq <= (next === undefined ? head() : next.first - 1)
  }

  const fill = (block: Buffer, seq: number, tag: Uint8Array): void => {
    block.writeUInt32BE(generationOf(seq), 0)
    block.writeUIntBE(seq, 4, 6)
    block.writeUInt16BE(salt(), 10)
    block.writeUInt32BE(bitsOf(tag), 12)
  }

  /** The position a decrypted block names, or why it names none. */
  const readBlock = (block: Buffer, tag: Uint8Array): Decoded<{ readonly seq: Seq }> => {
    const seq = block.readUIntBE(4, 6)
    if (!inRange(block.readUInt32BE(0), seq)) return refused('cursor_unknown')
    if (block.readUInt32BE(12) !== bitsOf(tag)) return refused('view_changed')
    return { ok: true, seq: asSeq(seq) }
  }

  const plain = Buffer.alloc(BLOCK_BYTES)
  return {
    encode: (seq, tag) => {
      fill(plain, seq, tag)
      return events.encrypt(plain).toString('base64url')
    },
    decode: (text, tag) => {
      if (!CURSOR.test(text)) return refused('cursor_malformed')
      return readBlock(events.decrypt(Buffer.from(text, 'base64url')), tag)
    },
    encodePage: ({ seq, index }, tag) => {
      if (index > INDEX_MAX || seq > SEQ_MAX) throw new RangeError('no such position')
      fill(plain, seq, tag)
      const first = pages.encrypt(plain)
      plain.writeUInt32BE(index, 0)
      plain.writeUInt32BE(bitsOf(tag), 4)
      plain.fill(0, 8)
      xorInto(plain, first)
      return Buffer.concat([first, pages.encrypt(plain)]).toString('base64url')
    },
    decodePage: (text, tag) => {
      if (!PAGE.test(text)) return refused('cursor_malformed')
      const whole = Buffer.from(text, 'base64url')
      const first = whole.subarray(0, BLOCK_BYTES)
      const second = pages.decrypt(whole.subarray(BLOCK_BYTES))
      xorInto(second, first)
      const block = pages.decrypt(first)
      // A second block that does not belong to the first decrypts to noise.
      const belongs = second.readUInt32BE(4) === block.readUInt32BE(12) && second.readBigUInt64BE(8) === 0n
      if (!belongs) return refused('cursor_unknown')
      const decoded = readBlock(block, tag)
      return decoded.ok ? { ok: true, key: { seq: decoded.seq, index: second.readUInt32BE(0) } } : decoded
    },
  }
}
