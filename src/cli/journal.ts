import { openJournal } from '../journal/sqlite/journal.ts'
import type { JournalRequest } from './run.ts'
import { type CliCommands, EXIT } from './run.ts'

const none = async (): Promise<number> => EXIT.failed
export const journalCommands: CliCommands['journal'] = {
  stats: async ({ config }: JournalRequest, io) => {
    const journal = await openJournal({ dataDir: config.dataDir })
    io.stdout.write(`${JSON.stringify(await journal.stats(), null, 2)}\n`)
    await journal.close()
    return EXIT.done
  },
  verify: none,
  backup: none,
  export: none,
}
