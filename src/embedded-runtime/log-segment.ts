import { arrayAt, isObject, type Json, type JsonObject, objectAt, sortKeys } from './json.ts'
import { appendEntry, type LogContext, segmentStart, type WorkerLog } from './worker-log.ts'

const compactedHistory = (log: WorkerLog): Json[] => {
  const said = log.entries.findLast(entry => entry.includes('"role":"assistant"'))
  const last = said === undefined ? {} : objectAt(JSON.parse(said) as Json, 'item')
  const summary = '[Compacted context summary]\n\nSUMMARY: what was said before. Nothing is open.'
  return [
    { kind: 'message', role: 'system', content: [{ kind: 'text', text: summary }] },
    ...(last.kind === 'message' ? [last] : []),
  ]
}

/** The `segment_start` with which a compacted log begins. */
export const compactedSegment = (log: WorkerLog, context: LogContext): JsonObject =>
  segmentStart(context, {
    history: compactedHistory(log),
    compacted_from: { segment_id: log.segmentId, at_turn_index: log.turns },
  })

export const compactionDone = (log: WorkerLog, context: LogContext, newSegmentId: string): void => {
  if (context.generation === 'events-ws') {
    const segment = compactedSegment(log, context)
    log.entries = [JSON.stringify(sortKeys(segment))]
    log.history = arrayAt(segment, 'history').length
  }
  log.segmentId = newSegmentId
  appendEntry(log, context, {
    kind: 'extension',
    domain: 'yoi.compaction',
    payload: {
      block_id: 'compact',
      error: null,
      kind: 'compaction_block',
      message: 'Compacted.',
      new_segment_id: newSegmentId,
      schema_version: 1,
      state: 'done',
    },
  })
}

export const segmentRotated = (log: WorkerLog, entry: JsonObject): void => {
  const json = JSON.stringify(sortKeys(entry))
  const onlyStart = log.entries[0]?.includes('"kind":"segment_start"') && !isObject(entry.compacted_from)
  if (onlyStart) log.entries[0] = json
  else {
    log.entries = [json]
    log.history = arrayAt(entry, 'history').length
  }
}
