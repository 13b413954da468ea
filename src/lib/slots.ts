/** Lets at most `size` holders in at a time; the others wait in the order they came. */
export class Slots {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(size: number) {
    this.#free = size
  }

  /**
   * Resolves with the way to give the slot back, which may be called more than once. On an aborted signal it
   * resolves at once, without a slot, so that a caller only ever looks at its signal.
   */
  async take(signal: AbortSignal): Promise<() => void> {
    if (signal.aborted) return () => undefined
    if (this.#free > 0) this.#free -= 1
    else if (!(await this.#turn(signal))) return () => undefined
    let held = true
    return () => {
      if (!held) return
      held = false
      const next = this.#waiting.shift()
      if (next === undefined) this.#free += 1
      else next()
    }
  }

  #turn(signal: AbortSignal): Promise<boolean> {
    return new Promise(resolve => {
      const enter = () => {
        signal.removeEventListener('abort', leave)
        resolve(true)
      }
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1)
        resolve(false)
      }
      this.#waiting.push(enter)
      signal.addEventListener('abort', leave, { once: true })
    })
  }
}
