/**
 * One unmasked WebSocket text frame (RFC 6455, 5.2) as a single buffer, so that a socket gets one write
 * where a library needs two. Safe beside the library's own frames as long as nothing is compressed.
 */
export const textFrame = (text: string): Buffer => {
  const bytes = Buffer.byteLength(text)
  const headerBytes = bytes < 126 ? 2 : bytes < 65_536 ? 4 : 10
  const frame = Buffer.allocUnsafe(headerBytes + bytes)
  frame[0] = 0x81
  if (headerBytes === 2) frame[1] = bytes
  else if (headerBytes === 4) {
    frame[1] = 126
    frame.writeUInt16BE(bytes, 2)
  } else {
    frame[1] = 127
    frame.writeBigUInt64BE(BigInt(bytes), 2)
  }
  frame.write(text, headerBytes, 'utf8')
  return frame
}
