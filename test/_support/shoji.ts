import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CLASSES } from '@shoji/web-contract'
import { loadConfig } from '../../src/config/load.ts'
import { createLogger } from '../../src/observability/log.ts'
import { type Overrides, type Service, startService } from '../../src/service.ts'

const grantAll = CLASSES.map(c => `${c}: show`).join(', ')

/** `admin` sees everything; `guest` the conversation; `nobody` may observe and sees nothing. */
export const POLICY = `
version: 1
subjects:
  admins: { any: [ { role: admin } ] }
  guests: { any: [ { role: guest } ] }
  blind: { any: [ { role: blind } ] }
statements:
  - { id: all, who: admins, on: "*", grant: { observe: true, classes: { ${grantAll} }, commands: [input.user] } }
  - id: conversation
    who: guests
    on: "*"
    grant: { observe: true, classes: { user_input: show, assistant_text: show, thinking: mask, tool_call: show, tool_args: mask, tool_output: mask, lifecycle: show } }
  - { id: blind, who: blind, on: "*", grant: { observe: true } }
`

export const TOKENS = { admin: 'shj_admin', guest: 'shj_guest', blind: 'shj_blind' } as const
export type User = keyof typeof TOKENS

export interface ShojiOptions {
  readonly runtimes: readonly { readonly id: string; readonly url: string; readonly token?: string }[]
  readonly policy?: string
  /** Further YAML lines at the top level of the configuration. */
  readonly extra?: string
  readonly overrides?: Overrides
  readonly directory?: string
}

export interface RunningShoji {
  readonly service: Service
  readonly url: string
  readonly directory: string
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

export function writeShojiFiles({ runtimes, policy = POLICY, extra = '', directory }: ShojiOptions): string {
  const at = directory ?? mkdtempSync(join(tmpdir(), 'shoji-test-'))
  const rows = runtimes.map(
    ({ id, url, token }) =>
      `  - { id: ${id}, url: "${url}"${token === undefined ? '' : `, token: "${token}"`} }`,
  )
  const tokens = Object.entries(TOKENS).map(
    ([id, token]) => `    - { id: ${id}, sha256: "${sha256(token)}", roles: [${id}] }`,
  )
  writeFileSync(join(at, 'policy.yaml'), policy)
  writeFileSync(
    join(at, 'shoji.yaml'),
    `listen: { host: 127.0.0.1, port: 0 }
data_dir: data
runtimes:
${rows.join('\n')}
auth:
  mode: tokens
  tokens:
${tokens.join('\n')}
policy: { file: policy.yaml }
log: { level: silent }
${extra}
`,
  )
  return at
}

/** A whole Shoji in this process, on a port of its own, with real files and sockets. */
export async function startShoji(options: ShojiOptions): Promise<RunningShoji> {
  const directory = writeShojiFiles(options)
  const config = await loadConfig({ file: join(directory, 'shoji.yaml'), env: {} })
  const log = createLogger({ level: config.log.level, hidden: [] })
  const service = await startService(config, log, options.overrides)
  let stopped: Promise<void> | undefined
  const stop = (): Promise<void> => {
    stopped ??= service.stop()
    return stopped
  }
  return {
    service,
    url: service.url,
    directory,
    stop,
    async [Symbol.asyncDispose]() {
      await stop()
      if (options.directory === undefined) rmSync(directory, { recursive: true, force: true })
    },
  }
}
