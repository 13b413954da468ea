import { resolve } from 'node:path'
import { DocumentError, type Issue } from '../../lib/document-error.ts'
import { type ReadText, readFailure, readText } from '../../lib/read-text.ts'
import type { CompiledPolicy } from '../view.ts'
import { compilePolicy } from './compile.ts'
import { type ParsedPolicy, parsePolicy } from './parse.ts'

const POLICY_BYTES_MAX = 1024 * 1024

export interface LoadedPolicy extends ParsedPolicy {
  readonly policy: CompiledPolicy
}

/**
 * Reads and compiles a policy file of at most 1 MiB. Rejects with a `DocumentError` `policy_invalid`, also
 * where it cannot be read: there is then no policy, and whoever asked decides what stays in force.
 */
export const loadPolicyFile = async (path: string, readFile: ReadText = readText): Promise<LoadedPolicy> => {
  const file = resolve(path)
  const parsed = parsePolicy(await read(readFile, file), file)
  return { ...parsed, policy: compilePolicy(parsed.document) }
}

const read = async (readFile: ReadText, file: string): Promise<string> => {
  try {
    return await readFile(file, POLICY_BYTES_MAX)
  } catch (cause) {
    const issue: Issue = { code: 'policy_invalid', path: '', line: 1, column: 1, message: readFailure(cause) }
    throw new DocumentError('policy_invalid', file, [issue], { cause })
  }
}
