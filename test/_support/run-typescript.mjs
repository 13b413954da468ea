// Runs a TypeScript module in a process of its own: node test/_support/run-typescript.mjs <file> [arguments]
import { resolve } from 'node:path'
import { runnerImport } from 'vite'

await runnerImport(resolve(process.argv[2]), { configFile: false, logLevel: 'error' })
