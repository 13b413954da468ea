/**
 * Incremental parser of an event stream (WHATWG HTML, 9.2.6). Chunks may end anywhere: inside a UTF-8
 * sequence, between CR and LF, inside a field name. An event is given out with the line end that completes
 * it; what an ended stream leaves unfinished is never given out.
 */

/** A line, and the data of one event, are never longer than this many UTF-16 units. */
const LINE_UNITS_MAX = 2 * 1024 * 1024

export interface SseEvent {
  /** Name of the event; empty where the stream gave none. */
  readonly event: string
  readonly data: string
  /** The event's own `id:` field, and not that of an event before it. */
  readonly id?: string
}

export interface SseParser {
  /** Throws a RangeError when a line or an event passes the limit: the stream is not worth going on with. */
  push(chunk: Uint8Array): void
}

export function createSseParser(
  onEvent: (event: SseEvent) => void,
  onRetry: (retryMs: number) => void = () => {},
  maxLineUnits = LINE_UNITS_MAX,
): SseParser {
  // Takes a BOM off the beginning of the stream, and only there.
  const decoder = new TextDecoder()
  let rest: string[] = []
  let restUnits = 0
  let endedInCr = false
  let event = ''
  let data: string[] = []
  let dataUnits = 0
  let id: string | undefined

  const bound = (units: number): number => {
    if (units > maxLineUnits) throw new RangeError('event stream: line too long')
    return units
  }

  const dispatch = (): void => {
    if (data.length > 0 || id !== undefined)
      onEvent({ event, data: data.join('\n'), ...(id !== undefined && { id }) })
    event = ''
    data = []
    dataUnits = 0
    id = undefined
  }

  const field = (line: string): void => {
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1))
    if (name === 'data') {
      dataUnits = bound(dataUnits + value.length)
      data.push(value)
    } else if (name === 'event') event = value
    else if (name === 'id' && !value.includes('\0')) id = value
    else if (name === 'retry' && /^\d+$/.test(value)) onRetry(Number(value))
  }

  return {
    push(chunk) {
      let text = decoder.decode(chunk, { stream: true })
      if (text === '') return
      if (endedInCr && text[0] === '\n') text = text.slice(1)
      if (text !== '') endedInCr = text.endsWith('\r')
      else endedInCr = false
      const lines = text.split(/\r\n|\n|\r/)
      const last = lines.pop() ?? ''
      if (lines.length > 0) {
        lines[0] = rest.join('') + lines[0]
        rest = []
        restUnits = 0
      }
      for (const line of lines) {
        bound(line.length)
        if (line === '') dispatch()
        else field(line)
      }
      restUnits = bound(restUnits + last.length)
      if (last !== '') rest.push(last)
    },
  }
}
