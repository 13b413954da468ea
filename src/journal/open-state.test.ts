import { expect, test } from 'vitest'
import { parseJson } from '../lib/json.ts'
import { decodeOpenState, emptyOpenState, encodeOpenState } from './open-state.ts'

test('a checkpoint keeps integers beyond 2^53 exact', () => {
  const open = { ...emptyOpenState(), usage: { input_tokens: 9_007_199_254_740_993n, output_tokens: 3 } }
  expect(decodeOpenState(parseJson(encodeOpenState(open)))).toEqual(open)
})
