import type { Generation } from './events.ts'
import type { JsonObject } from './json.ts'

export interface GreetingOf {
  readonly workerId: string
  readonly cwd: string
  readonly model: string
  readonly tools: readonly string[]
  readonly contextTokens: number
}

/** The `greeting` of a snapshot; a worker without a working directory has `cwd: ''`. */
export const greeting = (generation: Generation, of: GreetingOf): JsonObject => {
  const { workerId, cwd } = of
  const name = `worker-runtime-${workerId}`
  const home = generation === 'events-ws' ? `worker/runtime/${name}` : `runtime/workers/${workerId}/runs/1`
  const output = `/srv/agents/demo/${home}/bash-output`
  return {
    worker_name: name,
    cwd,
    provider: 'anthropic',
    model: of.model,
    scope_summary:
      cwd === '' ? `Readable:\n  - ${output}` : `Readable:\n  - ${cwd}\n  - ${output}\nWritable:\n  - ${cwd}`,
    tools: of.tools,
    context_window: 256_000,
    context_tokens: of.contextTokens,
  }
}

/** What a stopped worker greets with: an empty stand-in that must not be taken for an empty history (R11). */
export const standInGreeting = (workerId: string): JsonObject => ({
  worker_name: workerId,
  cwd: '',
  provider: 'worker-runtime',
  model: 'worker-runtime',
  scope_summary: 'runtime worker observation',
  tools: [],
  context_window: 0,
  context_tokens: 0,
})
