/**
 * Makes a journal of a given size through the real ingest: a hundred quiet workers say a few things, then
 * one says so many deltas that theirs lie that far behind.
 */
import { createIngest } from '../../src/journal/ingest.ts'
import { openJournal } from '../../src/journal/sqlite/journal.ts'
import { configOf, serveChild } from '../support/serve-child.ts'

export interface FillConfig {
  readonly directory: string
  /** Entries of the busy worker. */
  readonly entries: number
  readonly quietWorkers: number
  readonly quietEntries: number
}

export interface Filled {
  readonly head: number
  /** Position of the last entry of a quiet worker. */
  readonly quietHead: number
}

const DELTAS_PER_BLOCK = 200
const ROUND = 2_000

const fill = async (config: FillConfig): Promise<Filled> => {
  const journal = await openJournal({ dataDir: config.directory })
  const ingest = await createIngest({ journal })
  let number = 0
  const envelope = (event: string, data: object, time: number) => {
    number += 1
    return { eventId: `e${number}`, payload: JSON.stringify({ event, data }), time }
  }
  const snapshot = { status: 'running', entries: [], in_flight: { blocks: [], commands: [] } }
  const open = async (worker: string) => {
    const stream = await ingest.open({ source: 'runtime', runtime: 'rt', worker }, 'bench')
    stream.begin(envelope('snapshot', snapshot, Date.now()), {
      reason: 'upstream_unverifiable',
      dialect: 'events-ws',
      followed: false,
    })
    return stream
  }
  const text = 'a piece of text that a model may well have said in one go; '
  for (let made = 0; made < config.quietWorkers; made += 1) {
    const quiet = await open(`quiet-${made}`)
    for (let said = 0; said < config.quietEntries; said += 1)
      quiet.accept(envelope('text_done', { text }, Date.now()))
  }
  const quietHead = ingest.position
  const busy = await open('busy')
  const end = quietHead + config.entries
  for (let deltas = 0; ingest.position < end; ) {
    for (let i = 0; i < ROUND && ingest.position < end; i += 1) {
      deltas += 1
      const done = deltas % DELTAS_PER_BLOCK === 0
      busy.accept(
        done ? envelope('text_done', { text }, Date.now()) : envelope('text_delta', { text }, Date.now()),
      )
    }
    await journal.durable(ingest.position)
  }
  const head = ingest.position
  await journal.close()
  return { head, quietHead }
}

const filled = await fill(configOf<FillConfig>())
serveChild(filled, { stop: () => undefined })
