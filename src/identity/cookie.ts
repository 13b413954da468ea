import { CREDENTIAL_HEADER_BYTES_MAX, type HeaderLookup } from './authenticator.ts'

/** The session cookie of one server. */
export interface SessionCookie {
  readonly name: string
  /** Value of `Set-Cookie` that signs a browser in until `expiresAt`. */
  set(id: string, expiresAt: number): string
  /** Value of `Set-Cookie` that signs it out. */
  clear(): string
  /** The id a request carries; undefined where there is none, or more than one. */
  read(headers: HeaderLookup): string | undefined
}

/**
 * Under TLS `__Host-` keeps other hosts of the domain from planting one. Without it the name carries the
 * port, since cookies don't tell ports apart and several servers share a loopback host.
 */
export const sessionCookie = ({
  publicOrigin,
  port,
}: {
  publicOrigin?: string | undefined
  port: number
}): SessionCookie => {
  const secure = publicOrigin?.startsWith('https://') === true
  const name = secure ? '__Host-shoji' : `shoji_${port}`
  const attributes = `Path=/; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
  return {
    name,
    set: (id, expiresAt) => `${name}=${id}; ${attributes}; Expires=${new Date(expiresAt).toUTCString()}`,
    clear: () => `${name}=; ${attributes}; Max-Age=0`,
    read: headers => {
      const header = headers.get('cookie')
      if (header === null || header.length > CREDENTIAL_HEADER_BYTES_MAX) return undefined
      const values = header
        .split(';')
        .map(part => part.trim())
        .filter(part => part.startsWith(`${name}=`))
        .map(part => part.slice(name.length + 1))
      // Two of one name: one was planted from another path or host, and nothing says which.
      const [value] = values
      return values.length === 1 && value !== undefined && /^[\w-]{43}$/.test(value) ? value : undefined
    },
  }
}
