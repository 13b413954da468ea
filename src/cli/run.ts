import { randomBytes } from 'node:crypto'
import { stringify } from 'yaml'
import type { Config } from '../config/config.ts'
import { describeConfig } from '../config/describe.ts'
import type { Environment } from '../config/environment.ts'
import { loadConfig } from '../config/load.ts'
import { name as nameSchema } from '../config/scalars.ts'
import { createToken } from '../identity/token.ts'
import { DocumentError, formatIssue } from '../lib/document-error.ts'
import { ShojiError } from '../lib/error.ts'
import { loadPolicyFile } from '../projection/policy/file.ts'
import { type Command, HELP, type JournalCommand, parseCommand } from './parse-args.ts'

export interface CliIo {
  readonly stdout: Output
  readonly stderr: Output
  readonly env: Environment
  /** Aborts when the process is asked to end. */
  readonly signal: AbortSignal
}

interface Output {
  write(text: string): unknown
}

export interface JournalRequest {
  readonly config: Config
  readonly out?: string
  /** `runtime/worker`. */
  readonly worker?: string
}

/** What the composition root brings: everything that needs more than a file. Each resolves with an exit code. */
export interface CliCommands {
  readonly version: string
  readonly serve: (config: Config, io: CliIo) => Promise<number>
  readonly demo: (options: { readonly port?: number }, io: CliIo) => Promise<number>
  readonly journal: Readonly<Record<JournalCommand, (request: JournalRequest, io: CliIo) => Promise<number>>>
}

export const EXIT = { done: 0, failed: 1, wrong: 2 } as const

/** Runs one command line and resolves with the exit code; never rejects. Secrets are never printed, but for a new token, once. */
export const runCli = async (argv: readonly string[], io: CliIo, commands: CliCommands): Promise<number> => {
  try {
    return await run(parseCommand(argv), io, commands)
  } catch (error) {
    return report(error, io)
  }
}

const run = async (command: Command, io: CliIo, commands: CliCommands): Promise<number> => {
  switch (command.name) {
    case 'help':
      io.stdout.write(HELP)
      return EXIT.done
    case 'version':
      io.stdout.write(`${commands.version}\n`)
      return EXIT.done
    case 'usage':
      io.stderr.write(`shoji: ${command.message}\n\n${HELP}`)
      return EXIT.wrong
    case 'serve':
      return commands.serve(await loadConfig({ file: command.config, env: io.env }), io)
    case 'demo':
      return commands.demo(command.port === undefined ? {} : { port: command.port }, io)
    case 'config check':
      return checkConfig(command.config, io)
    case 'policy check':
      return checkPolicy(command.file, io)
    case 'token create':
      return makeToken(command.id, command.roles, io)
    case 'journal': {
      const { name: _, command: which, config: file, ...request } = command
      return commands.journal[which]({ config: await loadConfig({ file, env: io.env }), ...request }, io)
    }
  }
}

/** A policy the configuration names is part of what has to be right for a start. */
const checkConfig = async (file: string, io: CliIo): Promise<number> => {
  const config = await loadConfig({ file, env: io.env })
  if (config.policy.file !== undefined) await loadPolicyFile(config.policy.file)
  io.stdout.write(describeConfig(config))
  return EXIT.done
}

const checkPolicy = async (path: string, io: CliIo): Promise<number> => {
  const { document, findings, policy } = await loadPolicyFile(path)
  for (const finding of findings) io.stderr.write(`${formatIssue(path, finding)} (warning)\n`)
  io.stdout.write(`valid: ${document.statements.length} statements, ${policy.hash}\n`)
  return EXIT.done
}

const makeToken = (id: string, roles: readonly string[], io: CliIo): number => {
  const wrong = [id, ...roles].find(name => !nameSchema().safeParse(name).success)
  if (wrong !== undefined) {
    io.stderr.write(`shoji: ${JSON.stringify(wrong)} is not a name that auth.tokens takes\n`)
    return EXIT.wrong
  }
  const { token, sha256 } = createToken(randomBytes)
  const entry = stringify({ id, sha256, roles }, { collectionStyle: 'flow', lineWidth: 0 }).trim()
  io.stdout.write(`token (shown once): ${token}\nfor auth.tokens:    - ${entry}\n`)
  return EXIT.done
}

const report = (error: unknown, io: CliIo): number => {
  if (error instanceof DocumentError) {
    io.stderr.write(`${error.message}\n`)
    return EXIT.wrong
  }
  if (error instanceof ShojiError) io.stderr.write(`shoji: ${error.code}: ${error.message}\n`)
  else io.stderr.write(`shoji: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
  return EXIT.failed
}
