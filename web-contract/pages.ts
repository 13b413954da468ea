/** What the HTTP pages answer, beside the stream. */
import { z } from 'zod'
import { itemSchema, workerViewSchema } from './frames.ts'
import type { Item } from './state.ts'
import { UPSTREAM_STATES } from './vocabulary.ts'

const upstream = {
  upstream: z.enum(UPSTREAM_STATES),
  since: z.number(),
  code: z.string().optional(),
}

export const runtimeSchema = z.strictObject({ runtime: z.string(), ...upstream })

/** A worker as a list or its own page shows it: its last status, and the source it comes from. */
export const workerSchema = z.strictObject({
  runtime: z.string(),
  worker: z.string(),
  status: z.string().nullable(),
  ...upstream,
  view: workerViewSchema,
})

/** `GET /api/runtimes` */
export const runtimesPageSchema = z.strictObject({ items: z.array(runtimeSchema) })
/** `GET /api/runtimes/{runtime}/workers` */
export const workersPageSchema = z.strictObject({ items: z.array(workerSchema) })
/** `GET …/workers/{worker}/history`: newest first; an empty page may still have something before it. */
export const historyPageSchema = z.strictObject({
  items: z.array(itemSchema),
  earlier: z.string().nullable(),
})

export type RuntimePage = z.infer<typeof runtimeSchema>
export type WorkerPage = z.infer<typeof workerSchema>
export type RuntimesPage = z.infer<typeof runtimesPageSchema>
export type WorkersPage = z.infer<typeof workersPageSchema>
export type HistoryPage = Omit<z.infer<typeof historyPageSchema>, 'items'> & { items: Item[] }
