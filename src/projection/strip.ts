/**
 * `journal.never_store`: what is taken out of an event before it is written. The same tables that say what a
 * viewer may be shown say what is removed, so that a field which belongs to a class can't be forgotten in one
 * of them. An event that has to do with a removed class is built anew from its known fields; what Shoji does
 * not know may hold anything, and is not kept.
 */
import type { Class } from '@shoji/web-contract'
import type { Strip, Stripped } from '../journal/ingest.ts'
import type { OpenState } from '../journal/open-state.ts'
import { commandName } from '../journal/step.ts'
import { asArray, asRecord, asText, isRecord, type Json, stringifyJson } from '../lib/json.ts'
import { EVENTS, type EventShape, internalWorkerShape } from './classes.ts'
import {
  ANSWERS,
  ARGUMENTS_DELTA,
  IN_FLIGHT_BLOCKS,
  IN_FLIGHT_COMMAND,
  INTERNAL_WORKER_DEPTH_MAX,
  LOG_ENTRIES,
  LOG_ITEMS,
  MESSAGE_CONTENT,
  MESSAGE_ROLES,
  SEGMENTS,
  SNAPSHOT_WORKER,
} from './raw-shapes.ts'
import { classesOf, type Shape, walkShape } from './shape.ts'

/**
 * Removes whole classes. Texts become `''`, arguments `'{}'`, numbers 0, foreign values empty; a tool's name
 * becomes null, so that no rule for one tool takes it for another. Ids, kinds and the order of things stay:
 * blocks, calls and items resolve as before. Pure.
 */
export function createStrip(classes: readonly Class[]): Strip {
  const removed: ReadonlySet<Class> = new Set(classes)
  const all = [...removed]
  const level = (of: Class) => (removed.has(of) ? 'mask' : 'show')
  const build = (shape: Shape, value: unknown): unknown =>
    walkShape(shape, value, '', { level, withheld: [], safeId: id => id, unnamed: true })
  const fields = (known: Readonly<Record<string, Shape>>, value: Json): Json =>
    asRecord(build({ fields: known }, value))

  const removedOf = new Map<EventShape, readonly Class[]>()
  const touched = (shape: EventShape): readonly Class[] => {
    let known = removedOf.get(shape)
    if (known === undefined) {
      const of = new Set([...shape.of, ...classesOf({ fields: shape.fields })])
      known = all.filter(c => of.has(c))
      removedOf.set(shape, known)
    }
    return known
  }

  function stripEvent(
    event: string,
    data: Json,
    depth: number,
  ): { data: Json; notKept: readonly Class[] } | null {
    if (ANSWERS.has(event)) return { data: {}, notKept: all }
    switch (event) {
      case 'snapshot':
        return { data: snapshotWorker(data, 0), notKept: all }
      case 'rewind_applied':
        return {
          data: {
            entries: asArray(data.entries).map(logEntry),
            input: build(SEGMENTS, asArray(data.input)),
          },
          notKept: all,
        }
      case 'segment_rotated':
        return { data: { entry: logEntry(data.entry) }, notKept: all }
      case 'internal_worker':
        return stripInternalWorker(data, depth)
      default: {
        const shape = shapeOf(event, data)
        if (shape === undefined) return removed.has('unknown') ? { data: {}, notKept: ['unknown'] } : null
        const notKept = touched(shape)
        return notKept.length === 0 ? null : { data: fields(shape.fields, data), notKept }
      }
    }
  }

  function stripInternalWorker(data: Json, depth: number): { data: Json; notKept: readonly Class[] } | null {
    const inner = asRecord(data.event)
    const told = asText(inner.event)
    const nested =
      depth < INTERNAL_WORKER_DEPTH_MAX
        ? stripEvent(told, asRecord(inner.data), depth + 1)
        : { data: {}, notKept: all }
    if (nested === null && !removed.has('lifecycle')) return null
    const around = fields({ worker: internalWorkerShape, revision: { leaf: 'lifecycle' } }, data)
    return {
      data: { ...around, event: { event: told, data: nested?.data ?? inner.data } },
      notKept: [
        ...new Set([
          ...(nested?.notKept ?? []),
          ...(removed.has('lifecycle') ? (['lifecycle'] as const) : []),
        ]),
      ],
    }
  }

  /** A snapshot, or one internal worker inside it. */
  function snapshotWorker(data: Json, depth: number): Json {
    const deeper = depth < INTERNAL_WORKER_DEPTH_MAX && Array.isArray(data.internal_workers)
    return {
      ...fields(SNAPSHOT_WORKER, data),
      entries: asArray(data.entries).map(logEntry),
      ...(isRecord(data.in_flight) && { in_flight: inFlight(data.in_flight) }),
      ...(deeper && {
        internal_workers: asArray(data.internal_workers).map(w => snapshotWorker(asRecord(w), depth + 1)),
      }),
    }
  }

  function logEntry(value: unknown): Json {
    const entry = asRecord(value)
    const kind = asText(entry.kind)
    const shape = own(LOG_ENTRIES, kind)
    if (shape === undefined) return removed.has('unknown') ? { kind } : entry
    const built: Json = { kind, ...fields(shape, entry) }
    if (kind === 'segment_start') built.history = asArray(entry.history).map(logItem)
    if (kind === 'assistant_item' || kind === 'tool_result') built.item = logItem(entry.item)
    return built
  }

  function logItem(value: unknown): Json {
    const item = asRecord(value)
    const kind = asText(item.kind)
    if (kind === 'message') {
      const role = own(MESSAGE_ROLES, asText(item.role)) ?? 'system'
      return { kind, role, content: build(MESSAGE_CONTENT[role], asArray(item.content)) }
    }
    const shape = own(LOG_ITEMS, kind)
    if (shape === undefined) return removed.has('unknown') ? { kind } : item
    return { kind, ...fields(shape, item) }
  }

  function inFlight(data: Json): Json {
    const blocks = asArray(data.blocks).map(value => {
      const block = asRecord(value)
      const shape = own(IN_FLIGHT_BLOCKS, asText(block.kind))
      return {
        kind: shape === undefined ? 'unknown' : block.kind,
        ...fields(shape ?? { finished: { id: true } }, block),
      }
    })
    return { blocks, commands: asArray(data.commands).map(c => fields(IN_FLIGHT_COMMAND, asRecord(c))) }
  }

  function open(state: OpenState): void {
    if (isRecord(state.usage)) state.usage = stripEvent('usage', state.usage, 0)?.data ?? state.usage
    if (isRecord(state.greeting))
      state.greeting = stripEvent('greeting', state.greeting, 0)?.data ?? state.greeting
    if (removed.has('lifecycle')) {
      if (state.status !== null && state.status !== 'stopped') state.status = ''
      for (const scope of state.scopes.values())
        if (scope.worker !== undefined) scope.worker = asRecord(build(internalWorkerShape, scope.worker))
    }
    if (!removed.has('tool_call')) return
    for (const call of state.calls.values()) call.tool = null
    for (const [id, { stdout, stderr, ...command }] of state.commands)
      state.commands.set(id, {
        ...command,
        tool: null,
        ...(stdout && { stdout: { ...stdout, tool: null } }),
        ...(stderr && { stderr: { ...stderr, tool: null } }),
      })
  }

  return {
    event(event, data): Stripped | null {
      const stripped = stripEvent(event, data, 0)
      return stripped && { ...stripped, payload: stringifyJson({ event, data: stripped.data }) }
    },
    open,
  }
}

const own = <T>(table: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined

/** A `command` of a kind that is not known is a command all the same: its output may stand in it. */
function shapeOf(event: string, data: Json): EventShape | undefined {
  if (event === 'tool_call_args_delta') return ARGUMENTS_DELTA
  if (event !== 'command') return own(EVENTS, event)
  return own(EVENTS, commandName(data)) ?? EVENTS['command.output']
}
