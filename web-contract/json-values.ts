/** Reading values of a wire without believing in their types. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const record = (value: unknown): Record<string, unknown> => (isRecord(value) ? value : {})

export const str = (value: unknown): string => (typeof value === 'string' ? value : '')
