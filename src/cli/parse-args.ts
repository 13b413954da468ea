import { parseArgs } from 'node:util'

/** What a command line asks for. */
export type Command =
  | { readonly name: 'help' | 'version' }
  | { readonly name: 'serve' | 'config check'; readonly config: string }
  | { readonly name: 'demo'; readonly port?: number }
  | { readonly name: 'policy check'; readonly file: string }
  | { readonly name: 'token create'; readonly id: string; readonly roles: readonly string[] }
  | {
      readonly name: 'journal'
      readonly command: JournalCommand
      readonly config: string
      readonly out?: string
      readonly worker?: string
    }
  /** Not a command line of ours; `message` says what is wrong with it. */
  | { readonly name: 'usage'; readonly message: string }

export type JournalCommand = 'stats' | 'verify' | 'backup' | 'export'

export const HELP = `shoji: the screen between agent Runtimes and browsers

  shoji demo [--port N]                         everything on this machine, with recorded sessions
  shoji serve --config FILE                     serve viewers until SIGTERM or SIGINT
  shoji config check --config FILE              check a configuration and print its effective values
  shoji policy check FILE                       check a policy
  shoji token create --id USER [--roles a,b]    make a bearer token and its line for the configuration
  shoji journal stats|verify --config FILE      what the journal holds; whether it is sound
  shoji journal backup --config FILE --out FILE a consistent copy, keys included
  shoji journal export --config FILE --worker RUNTIME/WORKER [--out FILE]
                                                its entries as NDJSON: raw, past no policy, for the operator

The journal commands may be used while a server runs on the same data directory.

  --help, --version

Exit codes: 0 done, 1 failed, 2 a wrong command line, configuration or policy.
`

const OPTIONS = {
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
  config: { type: 'string', short: 'c' },
  port: { type: 'string' },
  id: { type: 'string' },
  roles: { type: 'string' },
  out: { type: 'string' },
  worker: { type: 'string' },
} as const

type Option = keyof typeof OPTIONS
type Values = ReturnType<typeof parse>['values']

/** The options each command takes, and how many words follow it. */
const COMMANDS = {
  demo: { options: ['port'], words: 0, read: demo },
  serve: { options: ['config'], words: 0, read: withConfig('serve') },
  'config check': { options: ['config'], words: 0, read: withConfig('config check') },
  'policy check': { options: [], words: 1, read: policyCheck },
  'token create': { options: ['id', 'roles'], words: 0, read: tokenCreate },
  'journal stats': { options: ['config'], words: 0, read: journal('stats') },
  'journal verify': { options: ['config'], words: 0, read: journal('verify') },
  'journal backup': { options: ['config', 'out'], words: 0, read: journal('backup') },
  'journal export': { options: ['config', 'worker', 'out'], words: 0, read: journal('export') },
} satisfies Record<string, CommandShape>

interface CommandShape {
  readonly options: readonly Option[]
  readonly words: number
  readonly read: (values: Values, words: readonly string[]) => Command
}

/** Reads the arguments after the program's name. Never throws. */
export const parseCommand = (argv: readonly string[]): Command => {
  let parsed: ReturnType<typeof parse>
  try {
    parsed = parse(argv)
  } catch (error) {
    return usage(error instanceof Error ? error.message : 'arguments that cannot be read')
  }
  const { values, positionals } = parsed
  if (values.help === true) return { name: 'help' }
  if (values.version === true) return { name: 'version' }
  const [first, second] = positionals
  if (first === undefined) return usage('a command is missing')
  const name = [`${first} ${second ?? ''}`, first].find(isCommand)
  if (name === undefined) return usage(`unknown command: ${positionals.slice(0, 2).join(' ')}`)
  const shape: CommandShape = COMMANDS[name]
  const words = positionals.slice(name.split(' ').length)
  if (words.length !== shape.words) {
    return usage(`${name} takes ${shape.words === 0 ? 'no further words' : 'one file'}`)
  }
  const foreign = Object.keys(values).find(option => !shape.options.some(known => known === option))
  return foreign === undefined ? shape.read(values, words) : usage(`${name} has no option --${foreign}`)
}

const isCommand = (name: string): name is keyof typeof COMMANDS => Object.hasOwn(COMMANDS, name)

function parse(argv: readonly string[]) {
  return parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true, strict: true })
}

function usage(message: string): Command {
  return { name: 'usage', message }
}

function withConfig(name: 'serve' | 'config check'): CommandShape['read'] {
  return ({ config }) => (config === undefined ? usage(`${name} needs --config FILE`) : { name, config })
}

function demo({ port }: Values): Command {
  if (port === undefined) return { name: 'demo' }
  const number = Number(port)
  return /^\d{1,5}$/.test(port) && number <= 65_535
    ? { name: 'demo', port: number }
    : usage('--port takes a number from 0 to 65535')
}

function policyCheck(_values: Values, [file = '']: readonly string[]): Command {
  return { name: 'policy check', file }
}

function tokenCreate({ id, roles }: Values): Command {
  if (id === undefined) return usage('token create needs --id USER')
  return { name: 'token create', id, roles: roles === undefined ? [] : roles.split(',') }
}

function journal(command: JournalCommand): CommandShape['read'] {
  return ({ config, out, worker }) => {
    if (config === undefined) return usage(`journal ${command} needs --config FILE`)
    if (command === 'backup' && out === undefined) return usage('journal backup needs --out FILE')
    if (command === 'export' && worker === undefined)
      return usage('journal export needs --worker RUNTIME/WORKER')
    return {
      name: 'journal',
      command,
      config,
      ...(out === undefined ? {} : { out }),
      ...(worker === undefined ? {} : { worker }),
    }
  }
}
