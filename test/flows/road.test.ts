import { expect, it } from 'vitest'
import { startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import { scriptedAgent } from '../../src/embedded-runtime/scripted-agent.ts'
import { startShoji, TOKENS } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'

/** Kinds of items the guest's policy shows or masks. */
const SHOWN = new Set(['user_message', 'text', 'thinking', 'tool_call', 'error'])

for (const generation of ['events-ws', 'protocol-ws'] as const) {
  it(`carries a run from a Runtime of ${generation} to a viewer, and resumes it`, async () => {
    await using runtime = await startEmbeddedRuntime({ generation, token: 'demo' })
    const worker = runtime.addWorker({ agent: scriptedAgent() })
    await using shoji = await startShoji({ runtimes: [{ id: 'rt', url: runtime.url, token: 'demo' }] })
    const url = `${shoji.url}/api/runtimes/rt/workers/${worker.id}`
    let stream: TestStream | undefined
    for (let i = 0; i < 100 && stream === undefined; i++)
      stream = await TestStream.open(`${url}/events`, { token: TOKENS.admin }).catch(async () => {
        await new Promise(r => setTimeout(r, 50))
        return undefined
      })
    await stream!.until(s => s.state.workers[`rt/${worker.id}`] !== undefined && s.state.live)
    const answer = await fetch(`${url}/commands`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKENS.admin}`, 'content-type': 'application/json' },
      body: JSON.stringify({ command: 'input.user', content: 'hello there' }),
    })
    expect([answer.status, await answer.json()]).toMatchObject([200, { state: 'done' }])
    await stream!.untilEnvelope('run_end')
    await stream!.until(s => s.state.workers[`rt/${worker.id}`]!.state.status === 'idle')
    const live = stream!.state.workers[`rt/${worker.id}`]!.state
    stream!.cut()
    const fresh = await TestStream.open(`${url}/events`, { token: TOKENS.admin })
    await fresh.untilLive()
    expect(fresh.state.workers[`rt/${worker.id}`]!.state).toEqual(live)
    fresh.cut()
    const guest = await TestStream.open(`${url}/events`, { token: TOKENS.guest })
    await guest.untilLive()
    const seen = guest.state.workers[`rt/${worker.id}`]!.state
    expect(seen.items.map(i => i.kind)).toEqual(live.items.map(i => i.kind).filter(k => SHOWN.has(k)))
    for (const item of seen.items) {
      if (item.kind === 'thinking')
        expect(item).toMatchObject({ text: '', withheld: [{ class: 'thinking', level: 'mask' }] })
      if (item.kind === 'tool_call') expect(item).toMatchObject({ arguments: '{}', result: { summary: '' } })
    }
    guest.cut()
  })
}
