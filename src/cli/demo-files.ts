import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface DemoViewer {
  readonly name: string
  readonly token: string
  readonly note: string
}

export interface DemoFiles {
  readonly directory: string
  readonly config: string
  readonly viewers: readonly DemoViewer[]
}

export const DEMO_RUNTIME = 'demo'

const POLICY = `# Two viewers of the same agents: operators see all, guests see the conversation and that tools ran.
version: 1
subjects:
  operators: { any: [ { role: operator } ] }
  guests: { any: [ { role: guest } ] }
resources:
  demo: { runtime: [${DEMO_RUNTIME}] }
statements:
  - id: operators-see-all
    who: operators
    on: demo
    grant:
      observe: true
      classes: { user_input: show, assistant_text: show, thinking: show, tool_call: show, tool_args: show,
                 tool_output: show, diagnostics: show, system: show, workspace: show, usage: show, lifecycle: show }
      commands: [input.user]
  - id: guests-see-the-conversation
    who: guests
    on: demo
    grant:
      observe: true
      classes: { user_input: show, assistant_text: show, thinking: mask, tool_call: show, tool_args: mask,
                 tool_output: mask, lifecycle: show }
`

/**
 * Writes what the demo is run with: the same files that \`shoji serve\` takes, in a directory of their own.
 * Tokens are made anew for each run and stand in no file but as hashes.
 */
export async function writeDemoFiles(
  runtimeUrl: string,
  runtimeToken: string,
  port: number,
): Promise<DemoFiles> {
  const directory = await mkdtemp(join(tmpdir(), 'shoji-demo-'))
  const viewers: DemoViewer[] = [
    { name: 'ana', token: newToken(), note: 'an operator: sees everything' },
    { name: 'guest', token: newToken(), note: 'a guest: no thinking, no arguments, no output' },
  ]
  const roles = ['operator', 'guest']
  const tokens = viewers.map(
    ({ name, token }, i) => `    - { id: ${name}, sha256: "${sha256(token)}", roles: [${roles[i]}] }`,
  )
  const config = join(directory, 'shoji.yaml')
  await writeFile(join(directory, 'policy.yaml'), POLICY, { mode: 0o600 })
  await writeFile(
    config,
    `listen: { host: 127.0.0.1, port: ${port} }
data_dir: data
runtimes:
  - { id: ${DEMO_RUNTIME}, url: "${runtimeUrl}", token: "${runtimeToken}" }
auth:
  mode: tokens
  tokens:
${tokens.join('\n')}
policy: { file: policy.yaml }
log: { level: warn }
`,
    { mode: 0o600 },
  )
  return { directory, config, viewers }
}

const newToken = (): string => `shj_${randomBytes(32).toString('base64url')}`
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
