export type Json = string | number | boolean | null | readonly Json[] | JsonObject
export type JsonObject = { readonly [key: string]: Json }

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The string at `key`, or `''`. */
export const textAt = (value: unknown, key: string): string => {
  const found = isObject(value) ? value[key] : undefined
  return typeof found === 'string' ? found : ''
}

export const objectAt = (value: unknown, key: string): JsonObject => {
  const found = isObject(value) ? value[key] : undefined
  return isObject(found) ? found : {}
}

export const arrayAt = (value: unknown, key: string): readonly Json[] => {
  const found = isObject(value) ? value[key] : undefined
  return Array.isArray(found) ? found : []
}

/** Keys in alphabetical order at every depth: the Runtime's log writes them so, its live events do not. */
export const sortKeys = (value: Json): Json => {
  if (Array.isArray(value)) return value.map(sortKeys)
  return isObject(value) ? sortedObject(value) : value
}

export const sortedObject = (value: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.keys(value)
      .sort()
      .map(key => [key, sortKeys(value[key] ?? null)]),
  )

export const parseJson = (text: string): Json | undefined => {
  try {
    return JSON.parse(text) as Json
  } catch {
    return undefined
  }
}
