import { CLASSES, COMMANDS, type Level } from '@shoji/web-contract'
import { z } from 'zod'
import { ANY, type SubjectMatcher } from './document.ts'

const STATEMENTS_MAX = 1_000
const NAMES_MAX = 1_000

const later = (what: string) => `${what} is not yet supported in this version`

const label = /^[A-Za-z0-9][\w.:-]{0,127}$/
const labelMessage =
  'expected a name of at most 128 of A-Z a-z 0-9 _ . : -, that begins with a letter or digit'
const labelSchema = z.string().regex(label, labelMessage)

const nameSchema = z.string().min(1, 'expected a name').max(256, 'expected a name of at most 256 characters')

const subjectMatcher = z
  .strictObject({ user: nameSchema.optional(), role: nameSchema.optional(), group: nameSchema.optional() })
  .transform((matcher, context): SubjectMatcher => {
    const { user, role, group } = matcher
    const given = [user, role, group].filter(name => name !== undefined)
    if (given.length !== 1) {
      context.addIssue({ code: 'custom', message: 'expected exactly one of user, role, group' })
      return z.NEVER
    }
    if (user !== undefined) return { user }
    return role !== undefined ? { role } : { group: group ?? '' }
  })

/** A name alone may stand for a list of one. */
const listOf = <T extends z.ZodType<string>>(item: T) =>
  z.preprocess(
    value => (typeof value === 'string' ? [value] : value),
    z.array(item).min(1, 'expected at least one name').max(NAMES_MAX),
  )

const resourceMatcher = z
  .strictObject({
    source: listOf(z.enum(['runtime', 'mcp', ANY], 'expected runtime, mcp or *')).optional(),
    runtime: listOf(nameSchema).optional(),
    worker: listOf(nameSchema).optional(),
    profile: listOf(nameSchema).optional(),
  })
  .refine(matcher => Object.values(matcher).some(names => names !== undefined), {
    message: 'expected at least one of source, runtime, worker, profile; `on: "*"` means everything',
  })

const levelSchema = z.unknown().transform((value, context): Level => {
  if (value === 'show' || value === 'mask' || value === 'drop') return value
  const truncates =
    value === 'truncate' || (typeof value === 'object' && value !== null && 'truncate' in value)
  context.addIssue({ code: 'custom', message: truncates ? later('truncate') : 'expected show, mask or drop' })
  return z.NEVER
})

const classesSchema = z.partialRecord(z.enum(CLASSES), levelSchema)
const commandsSchema = z
  .array(z.enum(COMMANDS, `unknown command: expected one of ${COMMANDS.join(', ')}`))
  .max(COMMANDS.length)

const effect = <T extends z.ZodType<boolean>>(observe: T) =>
  z.strictObject({
    observe: observe.optional(),
    classes: classesSchema.optional(),
    commands: commandsSchema.optional(),
  })

const notYet = (what: string) => z.custom<undefined>(value => value === undefined, later(what)).optional()

const statementSchema = z
  .strictObject({
    id: labelSchema,
    who: z.string(),
    on: z.string(),
    grant: effect(z.boolean()).optional(),
    cap: effect(z.literal(false, 'expected false: a cap of observe takes it away')).optional(),
    note: z.string().max(2_000, 'expected at most 2,000 characters').optional(),
    tools: notYet('tools'),
    mode: notYet('mode'),
  })
  .refine(statement => statement.grant !== undefined || statement.cap !== undefined, {
    message: 'expected grant or cap',
  })

const named = <T extends z.ZodType>(value: T) =>
  z
    .record(labelSchema, value)
    .refine(entries => Object.keys(entries).length <= NAMES_MAX, { message: `expected at most ${NAMES_MAX}` })
    .prefault({})

/** The whole document, closed: a key that is not here is an error. References are checked apart. */
export const documentSchema = z.strictObject({
  version: z.literal(1, 'expected 1'),
  subjects: named(
    z.strictObject({ any: z.array(subjectMatcher).min(1, 'expected at least one').max(NAMES_MAX) }),
  ),
  resources: named(resourceMatcher),
  statements: z
    .array(statementSchema)
    .max(STATEMENTS_MAX, `expected at most ${STATEMENTS_MAX} statements`)
    .prefault([]),
  scrub: notYet('scrub'),
  tests: notYet('tests'),
})
