/** The child's side of `child.ts`: says it is ready, then answers what it is asked, in any order. */
export const serveChild = (ready: object, handlers: Record<string, (args: never) => unknown>): void => {
  process.on('message', async message => {
    const { id, op, args } = message as { id: number; op: string; args: never }
    try {
      const handler = handlers[op]
      if (handler === undefined) throw new Error(`cannot ${op}`)
      process.send?.({ id, result: await handler(args) })
    } catch (error) {
      process.send?.({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
    if (op === 'stop') process.disconnect()
  })
  process.on('disconnect', () => process.exit(0))
  process.send?.(ready)
}

export const configOf = <T>(): T => JSON.parse(process.argv[2] ?? '{}') as T
