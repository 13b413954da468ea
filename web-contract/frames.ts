/**
 * What stands on the event stream. `event:` names the frame, `data:` is one JSON object, `id:` marks a
 * place from which all that follows can be resumed. The schemas are the contract; the types come from them.
 */
import { z } from 'zod'
import type { ClientState, WorkerState } from './state.ts'
import {
  BYE_REASONS,
  CLASSES,
  type FrameName,
  GAP_REASONS,
  LEVELS,
  PROTOCOL_VERSION,
  RESET_REASONS,
  UPSTREAM_STATES,
} from './vocabulary.ts'

const id = z.string().min(1).max(128)
const at = { runtime: id, worker: id }
const time = z.number()

const classLevels = z.partialRecord(z.enum(CLASSES), z.enum(LEVELS))

export const workerViewSchema = z.union([
  z.strictObject({ ...at, state: z.literal('not_found') }),
  z.strictObject({ ...at, classes: classLevels, commands: z.array(z.string()) }),
])

export const withheldSchema = z.strictObject({
  at: z.string(),
  class: z.enum(CLASSES),
  level: z.enum(LEVELS),
})

export const cutSchema = z.strictObject({ at: z.string(), chars: z.number().int(), rest: z.string() })

export const envelopeSchema = z.strictObject({
  ...at,
  time,
  event: z.string(),
  data: z.record(z.string(), z.unknown()),
  item: id.optional(),
  /** Present where this frame is the first of its item that this viewer is shown. */
  begins: z.literal(true).optional(),
  block: id.optional(),
  /** Every block and call that this event ends, with the text that is to be appended to it first. */
  tails: z.array(z.strictObject({ block: id, text: z.string() })).optional(),
  /** Items that this event takes back: a run that was rolled back leaves nothing. */
  removes: z.array(id).optional(),
  withheld: z.array(withheldSchema).optional(),
  cut: z.array(cutSchema).optional(),
})

const openBlock = z.strictObject({
  block: id,
  item: id,
  kind: z.enum(['text', 'thinking', 'stdout', 'stderr']),
  internal: id.optional(),
})
const openCall = z.strictObject({
  block: id,
  item: id,
  call: z.string().optional(),
  name: z.string().optional(),
  internal: id.optional(),
})

export const itemSchema = z.looseObject({
  id,
  kind: z.enum([
    'user_message',
    'text',
    'thinking',
    'tool_call',
    'system',
    'system_prompt',
    'error',
    'notice',
    'unsupported',
  ]),
  time,
  internal: id.optional(),
  withheld: z.array(withheldSchema).optional(),
  cut: z.array(cutSchema).optional(),
})

export const workerStateSchema = z.strictObject({
  status: z.string().nullable(),
  greeting: z.record(z.string(), z.unknown()).optional(),
  items: z.array(itemSchema),
  open: z.strictObject({ blocks: z.array(openBlock), calls: z.array(openCall) }),
  internal_workers: z.array(
    z.strictObject({
      session_id: id,
      name: z.string().optional(),
      parent_session_id: z.string().optional(),
      kind: z.string().optional(),
      status: z.string().optional(),
    }),
  ),
  usage: z.record(z.string(), z.unknown()).optional(),
})

/** The `data` of each frame by its name. */
export const frameSchemas = {
  hello: z.strictObject({
    protocol: z.literal(PROTOCOL_VERSION),
    outcome: z.enum(['fresh', 'resumed', 'reset']),
    reason: z.enum(RESET_REASONS).optional(),
    heartbeat_ms: z.number().int().positive(),
    policy: z.string(),
    views: z.array(workerViewSchema),
  }),
  snapshot: z.strictObject({ ...at, state: workerStateSchema, earlier: z.string().nullable() }),
  caught_up: z.strictObject({}),
  envelope: envelopeSchema,
  gap: z.strictObject({ ...at, reason: z.enum(GAP_REASONS) }),
  reset: z.strictObject({ ...at, reason: z.enum(RESET_REASONS) }),
  beat: z.strictObject({}),
  status: z.strictObject({
    runtime: id,
    worker: id.optional(),
    upstream: z.enum(UPSTREAM_STATES),
    since: z.number(),
    code: z.string().optional(),
  }),
  view: z.strictObject({ policy: z.string(), views: z.array(workerViewSchema) }),
  command: z.strictObject({
    id,
    command: z.string(),
    state: z.enum(['accepted', 'refused', 'done', 'failed', 'outcome_unknown']),
    code: z.string().optional(),
  }),
  bye: z.strictObject({ reason: z.enum(BYE_REASONS), retry_ms: z.number().int().nonnegative() }),
} as const satisfies Record<FrameName, z.ZodType>

export type EnvelopeData = z.infer<typeof envelopeSchema>
export type SnapshotData = Omit<z.infer<(typeof frameSchemas)['snapshot']>, 'state'> & { state: WorkerState }

type DataOf<N extends FrameName> = N extends 'snapshot'
  ? SnapshotData
  : N extends 'hello' | 'view'
    ? Omit<z.infer<(typeof frameSchemas)[N]>, 'views'> & { views: ClientState['views'] }
    : z.infer<(typeof frameSchemas)[N]>

/** One frame as client and server pass it on: `id` is the text of the SSE field. */
export type Frame = { [N in FrameName]: { event: N; data: DataOf<N>; id?: string } }[FrameName]
