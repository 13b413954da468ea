export interface RequestSeen {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly authorization: string | undefined
  readonly body: string
  readonly status: number
}

export interface UpgradeSeen {
  readonly path: string
  readonly query: string
  /** The `cursor` parameter; absent if there was none. */
  readonly cursor?: string
  readonly authorization: string | undefined
  /** 101, or the status of the refusal. */
  readonly status: number
}

export interface InputSeen {
  readonly workerId: string
  readonly body: string
  readonly status: number
}

const maxSeen = 10_000

const remember = <T>(list: T[], item: T): void => {
  list.push(item)
  if (list.length > maxSeen) list.splice(0, list.length - maxSeen)
}

/** What the Runtime saw of its clients, the newest 10,000 of each kind; for tests. */
export class Traffic {
  readonly requests: RequestSeen[] = []
  readonly upgrades: UpgradeSeen[] = []
  readonly inputs: InputSeen[] = []
  /** Protocol method frames that were taken. */
  methods = 0
  readonly #waiting = new Set<() => void>()

  request(seen: RequestSeen): void {
    remember(this.requests, seen)
    const input = /^\/v1\/workers\/([^/]+)\/input$/.exec(seen.path)
    if (input && seen.method === 'POST') {
      remember(this.inputs, { workerId: input[1] ?? '', body: seen.body, status: seen.status })
    }
    this.changed()
  }

  upgrade(seen: UpgradeSeen): void {
    remember(this.upgrades, seen)
    this.changed()
  }

  method(): void {
    this.methods += 1
    this.changed()
  }

  /** How many requests of this method and path were seen. */
  count(method: string, path: string): number {
    return this.requests.filter(seen => seen.method === method && seen.path === path).length
  }

  changed(): void {
    for (const check of [...this.#waiting]) check()
  }

  /**
   * Resolves when `condition` holds; it is looked at now and after each request, upgrade and close.
   * Rejects after `timeoutMs`.
   */
  until(condition: () => boolean, timeoutMs = 10_000): Promise<void> {
    return new Promise((resolve, reject) => {
      const check = (): void => {
        if (condition()) end(resolve)
      }
      const end = (settle: () => void): void => {
        clearTimeout(timer)
        this.#waiting.delete(check)
        settle()
      }
      const timer = setTimeout(() => end(() => reject(new Error('the condition never held'))), timeoutMs)
      this.#waiting.add(check)
      check()
    })
  }
}
