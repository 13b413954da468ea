import { type DestinationStream, type Logger, pino } from 'pino'
import type { LogLevel } from '../config/config.ts'
import { ShojiError } from '../lib/error.ts'
import type { Secret } from '../lib/secret.ts'

export type { Logger } from 'pino'

export interface LogOptions {
  readonly level: LogLevel
  /** Values that no line may hold, whatever they came in by: an error's message, a URL, a stack. */
  readonly hidden: readonly Secret[]
  /** Where lines go; stderr if left out. */
  readonly destination?: DestinationStream
}

/** What waits while stderr is not read; more is dropped, since a log must not hold up the service. */
const QUEUED_BYTES_MAX = 1024 * 1024

/** JSON lines. Values under names that speak of credentials are hidden, and every registered value wherever it stands. */
export const createLogger = ({ level, hidden, destination }: LogOptions): Logger => {
  const hide = hider(hidden)
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }), log: fields => hideFields(fields) },
      serializers: { err: describeError, error: describeError },
      hooks: { streamWrite: hide },
    },
    destination ?? standardError(),
  )
}

/** A log that can't be written (its disk is full, its reader is gone) loses lines; the service goes on. */
function standardError(): DestinationStream {
  const stream = pino.destination({ dest: 2, sync: false, maxLength: QUEUED_BYTES_MAX })
  stream.on('error', () => {})
  return stream
}

const HIDDEN = '[secret]'
/** Shorter values are too common to be told from ordinary text. */
const HIDDEN_LENGTH_MIN = 6
const DEPTH_MAX = 8
const CAUSES_MAX = 4
const CREDENTIAL_NAME =
  /^(proxy-?authorization|authorization|(set-?)?cookie|password|passwd|secret|.*token|.*secret|.*api[-_]?key)$/i

/** Longest first, so that a value that holds another is hidden whole. */
const hider = (hidden: readonly Secret[]): ((line: string) => string) => {
  const values = hidden
    .map(secret => secret.reveal())
    .filter(value => value.length >= HIDDEN_LENGTH_MIN)
    .flatMap(value => [JSON.stringify(value).slice(1, -1), encodeURIComponent(value)])
  const needles = [...new Set(values)].sort((a, b) => b.length - a.length)
  return line => needles.reduce((text, needle) => text.replaceAll(needle, () => HIDDEN), line)
}

const hideFields = (fields: Record<string, unknown>, depth = 0): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [
      key,
      CREDENTIAL_NAME.test(key) && value !== undefined ? HIDDEN : hideValue(value, depth),
    ]),
  )

const hideValue = (value: unknown, depth: number): unknown => {
  if (typeof value !== 'object' || value === null || value instanceof Error || 'toJSON' in value) return value
  if (depth >= DEPTH_MAX) return '[deep]'
  return Array.isArray(value)
    ? value.map(item => hideValue(item, depth + 1))
    : hideFields({ ...value }, depth + 1)
}

/** An error by its code, facts and stack, with what caused it. */
const describeError = (error: unknown): unknown => describeCause(error, 0)

const describeCause = (error: unknown, depth: number): unknown => {
  if (!(error instanceof Error)) return error
  const code = error instanceof ShojiError ? error.code : 'code' in error ? error.code : undefined
  return {
    type: error.name,
    ...(typeof code === 'string' ? { code } : {}),
    message: error.message,
    ...(error instanceof ShojiError ? { facts: hideFields({ ...error.facts }) } : {}),
    stack: error.stack,
    ...(error.cause === undefined || depth >= CAUSES_MAX
      ? {}
      : { cause: describeCause(error.cause, depth + 1) }),
  }
}
