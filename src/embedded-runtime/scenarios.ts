import { errorEvent, status, usage } from './events.ts'
import {
  beginTurn,
  type Call,
  call,
  endCall,
  endRun,
  endTurn,
  event,
  results,
  type Scene,
  type Step,
  type Steps,
  say,
  think,
  turn,
} from './steps.ts'

const bash = (scene: Scene, script: string, output: string, isError = false): Call => ({
  id: scene.newCallId(),
  name: 'Bash',
  args: { command: script },
  summary: `$ ${script}`.slice(0, 80),
  output,
  isError,
})

function* conversation(scene: Scene): Steps {
  const listing = bash(scene, 'ls -1', 'README.md\nnotes\nsrc\n')
  yield* turn(
    scene,
    [
      think(`The user says: ${scene.text.slice(0, 200)}. I will look around first.`),
      say('Let me look at that.'),
      call(listing),
    ],
    scene.late,
  )
  yield* results(scene, [listing])
  yield* turn(scene, [say(`You said “${scene.text}”. I looked: there are three entries here.`)])
  yield* endRun()
}

function* plain(scene: Scene): Steps {
  const text = `Hello! You said “${scene.text}”. Hi 👋🏽 — 家族 👩‍👩‍👧‍👦, ok ✅\nAnd a second line.`
  yield* turn(scene, [say(text)], scene.late)
  yield* endRun()
}

function* thinking(scene: Scene): Steps {
  yield* turn(
    scene,
    [
      think('The user wants a short answer.'),
      think(''),
      say('First text block.\n'),
      think('A second thought.'),
      say('Second text block.'),
    ],
    scene.late,
  )
  yield* endRun()
}

function* tools(scene: Scene): Steps {
  const write: Call = {
    id: scene.newCallId(),
    name: 'Write',
    args: { file_path: 'notes/hello.txt', content: 'line one\nline two — 漢字\n' },
    summary: 'Created notes/hello.txt (27 bytes)',
  }
  const list = bash(scene, 'ls -1', 'README.md\nnotes\nsrc\n')
  const fail = bash(scene, 'echo about to fail; exit 3', 'about to fail\n', true)
  yield* turn(
    scene,
    [think('I will write a file.'), say('Let me work on that.'), call(write), call(list), call(fail)],
    scene.late,
  )
  yield* results(scene, [write, list, fail])
  const missing: Call = {
    id: scene.newCallId(),
    name: 'Read',
    args: { file_path: 'does-not-exist.txt' },
    summary: 'Tool execution failed: Execution failed: file not found: does-not-exist.txt',
    isError: true,
  }
  yield* turn(scene, [say('Now something that is not there.'), call(missing)])
  yield* results(scene, [missing])
  yield* turn(scene, [say('All done: one file written, one command failed.')])
  yield* endRun()
}

const count = (scene: Scene, fallback: number, most: number): number => {
  const wanted = Number.parseInt(scene.argument, 10)
  return Number.isNaN(wanted) ? fallback : Math.min(Math.max(wanted, 0), most)
}

function* slow(scene: Scene): Steps {
  yield* beginTurn(scene)
  yield* scene.late
  yield* think('Thinking slowly, so that somebody can interrupt me.')
  let text = ''
  for (let word = 0; word < count(scene, 20, 10_000); word += 1) {
    text += `word${word} `
    yield event('text_delta', { text: `word${word} ` })
    yield { waitPaces: 9 }
  }
  yield event('text_done', { text })
  yield* endCall(scene)
  yield* endTurn(scene)
  yield* endRun()
}

function* long(scene: Scene): Steps {
  yield* beginTurn(scene)
  yield* scene.late
  let text = ''
  for (let line = 0; line < count(scene, 500, 200_000); line += 1) {
    const delta = `${String(line).padStart(6, '0')} lorem ipsum dolor sit amet\n`
    text += delta
    yield event('text_delta', { text: delta })
  }
  yield event('text_done', { text })
  yield* endCall(scene)
  yield* endTurn(scene)
  yield* endRun()
}

/** A provider error in mid-stream: it comes twice, and nothing ends the block but the status (R26). */
function* failing(scene: Scene): Steps {
  const message = 'Overloaded in mid-stream for key sk-FAKEfake0123456789FAKEfake0123456789'
  yield* beginTurn(scene)
  yield* scene.late
  yield event('text_delta', { text: 'Some text before the ' })
  yield errorEvent('provider_error', message)
  yield usage(1200, 1)
  yield errorEvent('provider_error', `Client error: API error [overloaded_error]: ${message}`)
}

function* retry(scene: Scene): Steps {
  yield* beginTurn(scene)
  yield* scene.late
  for (const [index, code] of [429, 529].entries()) {
    yield event('llm_retry', {
      llm_call: scene.llmCall(),
      failed_attempt: index + 1,
      max_attempts: 4,
      wait_ms: 10,
      elapsed_ms: 5,
      status: code,
      error: `API error (status: ${code}): <html><body>try later</body></html>`,
    })
    yield { waitPaces: 4 }
  }
  yield* say('It worked at the third attempt.')
  yield* endCall(scene)
  yield* endTurn(scene)
  yield* endRun()
}

/** The model's stream is cut: the text goes on without a mark, and its first part never enters the log (R27). */
function* cut(scene: Scene): Steps {
  yield* beginTurn(scene)
  yield* scene.late
  yield event('text_delta', { text: 'The first part is ' })
  yield* endCall(scene, 1)
  yield event('llm_continuation', {
    llm_call: scene.llmCall(),
    attempt: 1,
    max_attempts: 3,
    reason: 'stream ended before the message was complete',
  })
  yield event('llm_call_start', { llm_call: scene.llmCall() })
  yield* say('cut off; this is the second part.')
  yield* endCall(scene)
  yield* endTurn(scene)
  yield* endRun()
}

/** Invented keys wherever a real one could stand; all of them say FAKE (R33). */
function* secrets(scene: Scene): Steps {
  const key = 'ghp_FAKEfake0123456789FAKEfake0123456789'
  const aws = 'AKIAFAKEFAKEFAKEFAKE'
  const leak = bash(
    scene,
    `curl -H 'Authorization: Bearer ${key}' localhost`,
    `password=FAKE-hunter2\n${aws}\n`,
  )
  yield* turn(
    scene,
    [think(`The key ${key} must not be shown.`), say(`I use ${key} and ${aws}.`), call(leak)],
    scene.late,
  )
  yield event('alert', {
    level: 'warn',
    source: 'worker',
    message: `tool output below /srv/agents/demo mentions ${aws}`,
    timestamp_ms: scene.now(),
  })
  yield* results(scene, [leak])
  yield* turn(scene, [say(`The answer was password=FAKE-hunter2 for ${key}.`)])
  yield* endRun()
}

function* silent(scene: Scene): Steps {
  yield* beginTurn(scene)
  yield* scene.late
  yield { hold: true }
}

function* hold(scene: Scene): Steps {
  yield* beginTurn(scene)
  yield* scene.late
  yield* think('I will stop in the middle of a sentence.')
  yield event('text_delta', { text: 'This sentence has no ' })
  yield { hold: true }
}

function* holdTool(scene: Scene): Steps {
  const sleep = bash(scene, 'echo begin; sleep 600; echo end', 'begin\n')
  yield* turn(scene, [say('Running a slow command.'), call(sleep)], scene.late)
  yield { hold: true }
}

function* subWorker(scene: Scene): Steps {
  const spawn: Call = {
    id: scene.newCallId(),
    name: 'SubWorkerSpawn',
    args: { name: 'helper', task: scene.text },
    summary: 'spawned internal worker `helper`',
  }
  yield* turn(scene, [say('I ask a sub-worker.'), call(spawn)], scene.late)
  yield* results(scene, [spawn])
  const worker = { session_id: scene.newId(), name: 'helper', kind: 'sub_worker' }
  let revision = 0
  const inner: Step[] = [
    status('running'),
    event('turn_start', { turn: 0 }),
    event('llm_call_start', { llm_call: 0 }),
    event('user_message', { segments: [{ kind: 'text', content: scene.text }] }),
    ...think('I am the sub-worker, and I think.'),
    ...say('Reading the file for my parent.'),
    usage(1200, 42),
    event('llm_call_end', { llm_call: 0 }),
    event('turn_end', { turn: 0, result: 'finished' }),
    event('run_end', { result: 'finished' }),
    status('idle'),
  ]
  for (const step of inner) {
    if (!('event' in step)) continue
    revision += 1
    yield event('internal_worker', { worker, revision, event: step })
  }
  yield* turn(scene, [say('The sub-worker was asked.')])
  yield* endRun()
}

export type Scenario = (scene: Scene) => Steps

const scenarios: Readonly<Record<string, Scenario>> = {
  conversation,
  plain,
  think: thinking,
  tools,
  slow,
  long,
  error: failing,
  retry,
  cut,
  secrets,
  silent,
  hold,
  'hold-tool': holdTool,
  subworker: subWorker,
}

/**
 * The scenario that a text asks for: `scenario:name`, `scenario:name#mark`, `scenario:name(argument)`
 * anywhere in it; a conversation with one tool call if it asks for none or an unknown one.
 */
export const scenarioOf = (text: string): { readonly scenario: Scenario; readonly argument: string } => {
  const match = /scenario:([a-z-]+)(?:#[\w-]*)?(?:\(([^)]*)\))?/.exec(text)
  const scenario = scenarios[match?.[1] ?? ''] ?? conversation
  return { scenario, argument: match?.[2] ?? '' }
}
