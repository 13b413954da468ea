import { randomBytes } from 'node:crypto'
import { describe } from 'vitest'
import { sessionStoreSuite } from '../../test/suites/session-store-suite.ts'
import { createMemorySessions } from './sessions.ts'

describe('sessions in memory', () => {
  sessionStoreSuite(limits => createMemorySessions(randomBytes, limits))
})
