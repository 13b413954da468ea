import { type EnvelopeData, type Frame, type FrameName, pathInItem } from '@shoji/web-contract'
import { stringifyJson } from '../lib/json.ts'
import { cutLeaves } from './cut.ts'
import { restPath } from './history.ts'

/**
 * One frame as bytes of the stream. JSON never holds a raw CR or LF, so no text can end a line; the id stands
 * before the data, so a frame cut short by the network moves no client's position.
 */
export function encodeFrame(event: FrameName, data: object, id?: string): string {
  const head = id === undefined ? `event: ${event}\n` : `event: ${event}\nid: ${id}\n`
  return `${head}data: ${stringifyJson(data)}\n\n`
}

export const encode = (frame: Frame): string => encodeFrame(frame.event, frame.data, frame.id)

/** An envelope within the frame's cap: long leaves are cut, with a path to the rest of the item's. */
export function boundEnvelope(data: EnvelopeData): EnvelopeData {
  const { value, cut } = cutLeaves(data.data, '/data', at =>
    data.item === undefined ? '' : restPath(data, data.item, pathInItem(data, at)),
  )
  return cut.length === 0 ? data : { ...data, data: value, cut: [...(data.cut ?? []), ...cut] }
}
