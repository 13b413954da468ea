/**
 * Who may call from where: pure decisions on a request's headers, before anything of it is served. They keep
 * out pages of other sites that a signed-in browser has open, and names that were rebound to this machine.
 */
import { isLoopback } from '../lib/loopback.ts'
import type { HeaderLookup } from './authenticator.ts'
import type { SessionCookie } from './cookie.ts'

export interface CallerRules {
  readonly publicOrigin?: string | undefined
  /** Further `Host` values, lower case; without a port: at any port. */
  readonly hosts: readonly string[]
  /** Origins whose pages may read with credentials of their own. */
  readonly corsOrigins: readonly string[]
  /** The listener can be reached from this machine alone. */
  readonly loopbackBind: boolean
  readonly authMode: 'none' | 'tokens'
  readonly cookie: Pick<SessionCookie, 'name'>
}

export interface CallerRequest {
  readonly method: string
  readonly headers: HeaderLookup
}

/** Whether the `Host` is ours: that of the public origin, a configured one, or a loopback name on a loopback bind. */
export const hostAllowed = (request: CallerRequest, rules: CallerRules): boolean => {
  const host = parseHost(request.headers.get('host'))
  if (host === undefined) return false
  if (rules.publicOrigin !== undefined && sameHost(host, new URL(rules.publicOrigin))) return true
  if (rules.hosts.some(known => known === host.host || known === host.hostname)) return true
  return rules.loopbackBind && isLoopback(host.hostname)
}

/**
 * Whether the page behind a request may make it. Supposes that `hostAllowed` said yes.
 * An unsafe method that acts on ambient authority (the cookie, or `mode: none`) must say it comes from our
 * own pages; everything else must not say it comes from a page that is neither ours nor listed.
 */
export const originAllowed = (request: CallerRequest, rules: CallerRules): boolean => {
  const { method, headers } = request
  const origin = headers.get('origin')
  const own = origin !== null && isOwn(origin, request, rules)
  const ambient = rules.authMode === 'none' || carriesCookie(headers, rules.cookie.name)
  if (!SAFE_METHODS.has(method.toUpperCase()) && ambient) return own
  const listed = origin !== null && rules.corsOrigins.includes(origin)
  if (origin !== null && !own && !listed) return false
  const site = headers.get('sec-fetch-site')
  return site === null || site === 'same-origin' || site === 'none' || listed
}

/** Whether the cookie may speak for the caller: never for a page of another origin, listed or not. */
export const cookieCounts = (request: CallerRequest, rules: CallerRules): boolean => {
  const origin = request.headers.get('origin')
  return origin === null || isOwn(origin, request, rules)
}

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Under a loopback name we are spoken to directly, hence over http; else as the public origin is. */
const isOwn = (origin: string, request: CallerRequest, rules: CallerRules): boolean => {
  if (origin === rules.publicOrigin) return true
  const host = parseHost(request.headers.get('host'))
  if (host === undefined) return false
  const { protocol } = isLoopback(host.hostname)
    ? { protocol: 'http:' }
    : new URL(rules.publicOrigin ?? 'http://x')
  return origin === new URL(`${protocol}//${host.host}`).origin
}

interface Host {
  /** With the port, if one was given. */
  readonly host: string
  readonly hostname: string
  readonly port: string
}

const parseHost = (value: string | null): Host | undefined => {
  const [, hostname, port] =
    /^([\w.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])(?::(\d{1,5}))?$/.exec(value ?? '') ?? []
  if (hostname === undefined || !URL.canParse(`http://${value}`)) return undefined
  const name = hostname.toLowerCase()
  return { host: port === undefined ? name : `${name}:${port}`, hostname: name, port: port ?? '' }
}

/** A port that is left out is the scheme's own. */
const sameHost = (host: Host, origin: URL): boolean => {
  const standard = origin.protocol === 'https:' ? '443' : '80'
  return host.hostname === origin.hostname && (host.port || standard) === (origin.port || standard)
}

const carriesCookie = (headers: HeaderLookup, name: string): boolean =>
  (headers.get('cookie') ?? '').split(';').some(part => part.trim().startsWith(`${name}=`))
