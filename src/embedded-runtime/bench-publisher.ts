import { createInterface } from 'node:readline'
import type { Generation } from './events.ts'
import { isObject, parseJson } from './json.ts'
import { publish } from './publisher.ts'
import { startEmbeddedRuntime } from './runtime.ts'
import { scriptedAgent } from './scripted-agent.ts'

/**
 * A Runtime as a process of its own, for benches. The first argument is JSON: `{generation, workers,
 * token?, store?, log?: 'on'|'off' (default off), queueEvents?, backlogEvents?, socketBufferBytes?, agent?: true,
 * paceMs?}`. It says `{"url","workerIds"}` on a line of stdout, then takes commands, a JSON object a line
 * on stdin or a message over IPC: `{"publish":{eventsPerWorker, eventsPerSecond?, textBytes?,
 * deltasPerBlock?, deltasPerBurst?, polite?}}` answered by `{"published":…}` when done, `{"restart":{keepStore?}}` by
 * `{"restarted":true}`, `{"close":true}` by its end. It ends too when stdin ends.
 */
const config = parseJson(process.argv[2] ?? '{}')
const options = isObject(config) ? config : {}

const number = (value: unknown, fallback: number): number => (typeof value === 'number' ? value : fallback)
const generation: Generation = options.generation === 'protocol-ws' ? 'protocol-ws' : 'events-ws'

const say = (message: object): void => {
  process.stdout.write(`${JSON.stringify(message)}\n`)
  process.send?.(message)
}

const runtime = await startEmbeddedRuntime({
  generation,
  port: number(options.port, 0),
  ...(typeof options.token === 'string' ? { token: options.token } : {}),
  store: options.store === 'memory-store' ? 'memory-store' : 'none',
  queueEvents: number(options.queueEvents, 256),
  backlogEvents: number(options.backlogEvents, 1024),
  socketBufferBytes: number(options.socketBufferBytes, 65_536),
})
for (let made = 0; made < number(options.workers, 1); made += 1) {
  runtime.addWorker({
    log: options.log === 'on' ? 'on' : 'off',
    ...(options.agent === true ? { agent: scriptedAgent({ paceMs: number(options.paceMs, 0) }) } : {}),
  })
}

const end = async (): Promise<void> => {
  await runtime.close()
  commands.close()
  if (process.connected) process.disconnect()
}

const obey = async (command: unknown): Promise<void> => {
  if (!isObject(command)) return
  if (isObject(command.publish)) {
    const wanted = command.publish
    const rate = wanted.eventsPerSecond
    const published = await publish([...runtime.workers.values()], {
      eventsPerWorker: number(wanted.eventsPerWorker, 1),
      ...(typeof rate === 'number' ? { eventsPerSecond: rate } : {}),
      textBytes: number(wanted.textBytes, 64),
      deltasPerBlock: number(wanted.deltasPerBlock, 256),
      deltasPerBurst: number(wanted.deltasPerBurst, 1),
      polite: wanted.polite !== false,
    })
    say({ published })
  }
  if (isObject(command.restart)) {
    const keep = command.restart.keepStore
    await runtime.restart(typeof keep === 'boolean' ? { keepStore: keep } : {})
    say({ restarted: true })
  }
  if (command.close === true) await end()
}

const failed = (cause: unknown): void => say({ failed: String(cause) })
const commands = createInterface({ input: process.stdin })
commands.on('line', line => {
  obey(parseJson(line)).catch(failed)
})
commands.on('close', () => {
  end().catch(failed)
})
process.on('message', message => {
  obey(message).catch(failed)
})

say({ url: runtime.url, workerIds: [...runtime.workers.keys()] })
