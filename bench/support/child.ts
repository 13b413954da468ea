import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { BUNDLES } from './bundles.ts'

export type Json = Readonly<Record<string, unknown>>

export interface ChildOptions {
  /** A set of cores for `taskset`; unpinned where there is no such tool or only one core. */
  readonly cores?: string
  readonly execArgv?: readonly string[]
}

const TASKSET = '/usr/bin/taskset'
export const canPin = existsSync(TASKSET) && cpus().length > 1
/** The client's own core, and all others. */
export const CLIENT_CORES = String(cpus().length - 1)
export const SERVER_CORES = cpus().length > 2 ? `0-${cpus().length - 2}` : '0'

const START_MS = 60_000
const STOP_MS = 15_000

const alive = new Set<Child>()
let endedCpuMs = 0

/** Processor time of all processes of this bench, but for what they used while they ended. */
export const childrenCpuMs = (): number => [...alive].reduce((sum, child) => sum + child.cpuMs(), endedCpuMs)

process.once('exit', () => {
  for (const child of alive) child.kill()
})

/** One process of a bench, asked over IPC. A process that dies fails whatever waits for it. */
export class Child {
  readonly name: string
  readonly #process: ChildProcess
  readonly #waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>()
  #ids = 0
  #over = false
  readonly #exited: Promise<void>
  #first: ((value: never) => void) | undefined

  private constructor(name: string, child: ChildProcess) {
    this.name = name
    this.#process = child
    alive.add(this)
    child.on('message', message => this.#heard(message as Json))
    this.#exited = new Promise(resolve => {
      child.on('exit', code => {
        this.#over = true
        this.#leave()
        const error = new Error(`${name} ended with ${code}`)
        for (const { reject } of this.#waiting.values()) reject(error)
        this.#waiting.clear()
        resolve()
      })
    })
  }

  /** Starts a bundled process; resolves with it and with the first thing it says. */
  static async start<T>(
    name: string,
    config: object,
    options: ChildOptions = {},
  ): Promise<{ child: Child; ready: T }> {
    const node = [...(options.execArgv ?? []), join(BUNDLES, `${name}.js`), JSON.stringify(config)]
    const pin = options.cores !== undefined && canPin ? [TASKSET, '-c', options.cores] : []
    const [command = process.execPath, ...args] = [...pin, process.execPath, ...node]
    // Its stdin stays open: a process that reads commands there ends when that does.
    const started = spawn(command, args, { stdio: ['pipe', 'ignore', 'inherit', 'ipc'] })
    const child = new Child(name, started)
    const ready = await new Promise<T>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${name} does not start`)), START_MS)
      child.#first = (value: never) => {
        clearTimeout(timer)
        resolve(value)
      }
      started.once('exit', code => reject(new Error(`${name} did not start: ${code}`)))
    })
    return { child, ready }
  }

  ask<T>(op: string, args: object = {}): Promise<T> {
    if (this.#over) return Promise.reject(new Error(`${this.name} has ended`))
    this.#ids += 1
    const id = this.#ids
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#process.send({ id, op, args })
    })
  }

  /** Sends a message in the form that a process understands which is no child of this kind; see `bench-publisher.ts`. */
  tell<T>(message: object, answer: string): Promise<T> {
    return new Promise((resolve, reject) => {
      const heard = (reply: unknown): void => {
        if (typeof reply !== 'object' || reply === null) return
        if ('failed' in reply) reject(new Error(`${this.name}: ${String(reply.failed)}`))
        else if (answer in reply) resolve((reply as Record<string, T>)[answer] as T)
        else return
        this.#process.off('message', heard)
      }
      this.#process.on('message', heard)
      this.#process.send(message)
    })
  }

  /** Processor time used so far, all threads, in milliseconds; NaN where the system does not tell. */
  cpuMs(): number {
    try {
      const stat = readFileSync(`/proc/${this.#process.pid}/stat`, 'utf8')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      return (Number(fields[11]) + Number(fields[12])) * 10
    } catch {
      return Number.NaN
    }
  }

  /** Lets it end by itself, so that a profile is written; kills it when it does not. */
  async stop(): Promise<void> {
    if (this.#over) return
    this.#leave()
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), STOP_MS)
    this.ask('stop').catch(() => undefined)
    await this.#exited
    clearTimeout(timer)
  }

  /** For a process that does not know `stop`. */
  async close(): Promise<void> {
    if (this.#over) return
    this.#leave()
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), STOP_MS)
    this.#process.send({ close: true })
    await this.#exited
    clearTimeout(timer)
  }

  #leave(): void {
    if (!alive.delete(this)) return
    const ms = this.cpuMs()
    if (ms > 0) endedCpuMs += ms
  }

  kill(): void {
    this.#process.kill('SIGKILL')
  }

  #heard(message: Json): void {
    const { id, error, result } = message
    if (typeof id !== 'number') {
      this.#first?.(message as never)
      this.#first = undefined
      return
    }
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (error !== undefined) waiting?.reject(new Error(`${this.name}: ${String(error)}`))
    else waiting?.resolve(result as never)
  }
}
