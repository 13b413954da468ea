/** What a viewer may ask of a worker, and the receipt for it. */
import { z } from 'zod'
import { COMMANDS } from './vocabulary.ts'

/** The body of a command request. Only what is forwarded today is accepted; anything else is refused. */
export const commandRequestSchema = z.discriminatedUnion('command', [
  z.strictObject({
    command: z.literal('input.user'),
    content: z
      .string()
      .min(1)
      .max(256 * 1024),
  }),
])
export type CommandRequest = z.infer<typeof commandRequestSchema>

export const receiptSchema = z.strictObject({
  id: z.string(),
  command: z.enum(COMMANDS),
  state: z.enum(['accepted', 'refused', 'done', 'failed', 'outcome_unknown']),
  code: z.string().optional(),
  cursor: z.string().nullable(),
})
export type Receipt = z.infer<typeof receiptSchema>
