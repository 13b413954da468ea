import { ShojiError } from '../lib/error.ts'

/** A whole number of the query within its bounds; 400 `bad_request` for anything else. */
export function wholeNumber(
  text: string | undefined,
  name: string,
  bounds: { readonly default: number; readonly min: number; readonly max: number },
): number {
  if (text === undefined || text === '') return bounds.default
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (!(value >= bounds.min && value <= bounds.max))
    throw new ShojiError('bad_request', `${name} is a whole number from ${bounds.min} to ${bounds.max}`)
  return value
}
