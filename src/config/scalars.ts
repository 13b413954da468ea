/** The leaves of the configuration: each reads one value, and says in words what would have been right. */
import { isIP } from 'node:net'
import { z } from 'zod'
import { parseBytes, parseDuration } from './units.ts'

/** What is wrong with a value, in words that do not quote it. */
class Wrong {
  readonly message: string
  constructor(message: string) {
    this.message = message
  }
}

const scalar = <T>(expected: string, read: (value: unknown) => T | Wrong | undefined) =>
  z.unknown().transform((value, context): T => {
    const result = value === undefined ? undefined : read(value)
    if (result !== undefined && !(result instanceof Wrong)) return result
    const right = result instanceof Wrong ? result.message : expected
    context.addIssue({
      code: 'custom',
      message: value === undefined ? `required: ${right}` : `expected ${right}`,
    })
    return z.NEVER
  })

const matching = (expected: string, pattern: RegExp) =>
  scalar(expected, value => (typeof value === 'string' && pattern.test(value) ? value : undefined))

/** Inclusive. */
interface Range {
  readonly min: number
  readonly max: number
}

/** Digits in a text are a number too, since `${env:PORT}` is always text. */
export const whole = ({ min, max }: Range) =>
  scalar(`a whole number from ${min} to ${max}`, value => {
    const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
    return typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max
      ? number
      : undefined
  })

const within = ({ min, max }: Range, value: number | undefined): number | undefined =>
  value !== undefined && value >= min && value <= max ? value : undefined

/** Bytes: `64MiB`. Bounds are written as one would write the value. */
export const size = (min: string, max: string) => {
  const range = { min: parseBytes(min) ?? 0, max: parseBytes(max) ?? 0 }
  return scalar(`a size from ${min} to ${max}`, value =>
    typeof value === 'string' ? within(range, parseBytes(value)) : undefined,
  )
}

/** Milliseconds: `7d`. */
export const duration = (min: string, max: string) => {
  const range = { min: parseDuration(min) ?? 0, max: parseDuration(max) ?? 0 }
  return scalar(`a duration from ${min} to ${max}`, value =>
    typeof value === 'string' ? within(range, parseDuration(value)) : undefined,
  )
}

/** Runtime ids stand in URL paths and in `runtime/worker` pairs: no slash, and never `.` or `..`. */
export const runtimeId = () =>
  matching(
    'an id of at most 64 of A-Z a-z 0-9 _ . : + -, that begins with a letter or digit',
    /^[A-Za-z0-9][\w.:+-]{0,63}$/,
  )

/** Users, roles and groups. */
export const name = () =>
  matching(
    'a name of at most 128 of A-Z a-z 0-9 _ . : @ / + -, that begins with a letter or digit',
    /^[A-Za-z0-9][\w.:@/+-]{0,127}$/,
  )

export const sha256 = () =>
  scalar('a SHA-256 as 64 hex digits', value =>
    typeof value === 'string' && /^[0-9a-fA-F]{64}$/.test(value) ? value.toLowerCase() : undefined,
  )

export const path = () =>
  scalar('a path', value =>
    typeof value === 'string' && value !== '' && value.length <= 4096 && !value.includes('\0')
      ? value
      : undefined,
  )

const HOST_NAME = /^[A-Za-z0-9_](?:[\w.-]{0,251}[A-Za-z0-9_])?$/

export const hostName = () =>
  scalar('a host name or an address', value =>
    typeof value === 'string' && (isIP(value) !== 0 || HOST_NAME.test(value))
      ? value.toLowerCase()
      : undefined,
  )

/** A `Host` value: a name or an address, an IPv6 one in brackets, with or without a port. */
export const hostHeader = () =>
  scalar('a host name, with or without a port', value => {
    if (typeof value !== 'string') return undefined
    const host = value.replace(/:\d{1,5}$/, '')
    const known = HOST_NAME.test(host) || (/^\[.*\]$/.test(host) && isIP(host.slice(1, -1)) === 6)
    return known ? value.toLowerCase() : undefined
  })

/** Exactly what a browser sends: scheme, host and port without a path. `null` and `*` are not origins. */
export const origin = () =>
  scalar('an origin such as https://ui.example, without a path', value =>
    typeof value === 'string' && originOf(value) === value ? value : undefined,
  )

const originOf = (text: string): string | undefined => {
  const url = parseUrl(text)
  return url !== undefined && /^https?:$/.test(url.protocol) ? url.origin : undefined
}

const parseUrl = (text: string): URL | undefined => (URL.canParse(text) ? new URL(text) : undefined)

/** Without credentials (they would end in logs), query or fragment; a path prefix may stand. No slash at the end. */
export const runtimeUrl = () =>
  scalar('an http or https URL', value => {
    const url = typeof value === 'string' ? parseUrl(value) : undefined
    if (url === undefined || !/^https?:$/.test(url.protocol)) return undefined
    if (url.username !== '' || url.password !== '') return new Wrong('a URL without credentials: use token')
    if (/[?#]/.test(url.href)) return new Wrong('a URL without query or fragment')
    return url.href.replace(/\/+$/, '')
  })

/** Milliseconds since the epoch. A date alone ends at its first moment in UTC; a time needs its zone. */
export const instant = () =>
  scalar('a date (2027-01-01) or a time with its zone (2027-01-01T12:00:00Z)', value => {
    const known = z.union([z.iso.date(), z.iso.datetime({ offset: true })]).safeParse(value)
    return known.success ? Date.parse(known.data) : undefined
  })

export const oneOf = <const T extends string>(values: readonly T[]) =>
  scalar(`one of ${values.join(', ')}`, value => values.find(known => known === value))
