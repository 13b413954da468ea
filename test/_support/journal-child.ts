/** Appends entries to the journal of a directory until it is killed, and prints each position told durable. */
import { asSeq } from '../../src/journal/entry.ts'
import { openJournal } from '../../src/journal/sqlite/journal.ts'

const dataDir = process.argv[3] ?? ''
const journal = await openJournal({ dataDir, flush: { flushMs: 1 } })
const stream = await journal.openStream({ source: 'runtime', runtime: 'rt', worker: 'w' }, null)
journal.onCommit(commit => process.stdout.write(`${commit.head}\n`))

for (let next = journal.firstSeq as number; ; ) {
  for (let i = 0; i < 20; i++, next++)
    journal.append({
      entries: [
        {
          seq: asSeq(next),
          stream: stream.id,
          incarnation: 0,
          time: next,
          event: 'text_delta',
          eventId: `e${next}`,
          payload: `{"event":"text_delta","data":{"delta":"${next}"}}`,
          context: {},
          mark: false,
        },
      ],
    })
  await new Promise(resolve => setImmediate(resolve))
  if (journal.queuedBytes > 1_000_000) await journal.durable(asSeq(next - 1))
}
