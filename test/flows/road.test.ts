import { expect, it } from 'vitest'
import { startEmbeddedRuntime } from '../../src/embedded-runtime/runtime.ts'
import { scriptedAgent } from '../../src/embedded-runtime/scripted-agent.ts'
import { startShoji, TOKENS } from '../_support/shoji.ts'
import { TestStream } from '../_support/sse.ts'

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
    console.log(JSON.stringify(live, null, 1).slice(0, 3000))
    console.log(stream!.frames.map(f => (f.event === 'envelope' ? f.data.event : f.event)).join(' '))
    stream!.cut()
    const fresh = await TestStream.open(`${url}/events`, { token: TOKENS.admin })
    await fresh.untilLive()
    expect(fresh.state.workers[`rt/${worker.id}`]!.state).toEqual(live)
    fresh.cut()
    const guest = await TestStream.open(`${url}/events`, { token: TOKENS.guest })
    await guest.untilLive()
    console.log(JSON.stringify(guest.state.workers[`rt/${worker.id}`]!.state, null, 1).slice(0, 1500))
    guest.cut()
  })
}
