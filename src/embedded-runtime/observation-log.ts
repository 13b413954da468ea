export interface Retained {
  readonly position: number
  readonly workerId: string
  readonly frame: string
}

export interface ObservationLimits {
  /** Events kept for all workers together; the oldest is evicted whoever's it is. */
  readonly backlogEvents: number
  /** Live events that may wait for one socket, of all workers together (R65). */
  readonly queueEvents: number
  /** Events a store gives back at a restart; 0 without a store. */
  readonly storedEvents: number
}

interface Slot {
  readonly retained: Retained
  gone: boolean
}

/** A first-in-first-out list whose `shift` does not move the rest. */
class Fifo<T> {
  #items: T[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  push(item: T): void {
    this.#items.push(item)
  }

  shift(): T | undefined {
    if (this.#head === this.#items.length) return undefined
    const item = this.#items[this.#head]
    this.#head += 1
    if (this.#head > 512 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  at(index: number): T | undefined {
    const place = index < 0 ? this.#items.length + index : this.#head + index
    return place < this.#head ? undefined : this.#items[place]
  }

  toArray(): T[] {
    return this.#items.slice(this.#head)
  }
}

/**
 * What the Runtime keeps of what it said: one counter for the whole process, the backlog that decides
 * which cursors are good, and the short live queue that decides when a slow socket is overrun. The two
 * are independent: a cursor can be good for a socket that was overrun, and the reverse.
 */
export class ObservationLog {
  readonly #limits: ObservationLimits
  readonly #byWorker = new Map<string, Fifo<Slot>>()
  readonly #queue: ({ workerId: string; frame: string } | undefined)[]
  #all = new Fifo<Slot>()
  #stored = new Fifo<Retained>()
  #retainedCount = 0
  #next = 1
  #published = 0

  constructor(limits: ObservationLimits) {
    this.#limits = limits
    this.#queue = new Array(limits.queueEvents)
  }

  /** The position the next event will get. */
  get next(): number {
    return this.#next
  }

  /** How many frames were ever put into the live queue. */
  get published(): number {
    return this.#published
  }

  get queueEvents(): number {
    return this.#limits.queueEvents
  }

  take(): number {
    const position = this.#next
    this.#next += 1
    return position
  }

  skipTo(position: number): void {
    this.#next = Math.max(this.#next, position)
  }

  retain(retained: Retained): void {
    this.#keep(retained)
    while (this.#retainedCount > this.#limits.backlogEvents) this.#evictOldest()
    if (this.#limits.storedEvents > 0) {
      this.#stored.push(retained)
      if (this.#stored.length > this.#limits.storedEvents) this.#stored.shift()
    }
  }

  enqueue(workerId: string, frame: string): void {
    this.#queue[this.#published % this.#limits.queueEvents] = { workerId, frame }
    this.#published += 1
  }

  /** The frame at a place of the live queue, `undefined` if it is another worker's; the caller checks for overrun. */
  queuedFor(workerId: string, place: number): string | undefined {
    const entry = this.#queue[place % this.#limits.queueEvents]
    return entry?.workerId === workerId ? entry.frame : undefined
  }

  firstOf(workerId: string): number | undefined {
    return this.#byWorker.get(workerId)?.at(0)?.retained.position
  }

  /** The position of a worker's last retained event, or of the one so many events before it. */
  lastOf(workerId: string, back = 0): number | undefined {
    return this.#byWorker.get(workerId)?.at(-1 - back)?.retained.position
  }

  after(workerId: string, position: bigint): string[] {
    const slots = this.#byWorker.get(workerId)?.toArray() ?? []
    return slots.filter(slot => BigInt(slot.retained.position) > position).map(slot => slot.retained.frame)
  }

  /** Forgets a worker's oldest events until `keep` are left. */
  evict(workerId: string, keep: number): void {
    const slots = this.#byWorker.get(workerId)
    while (slots && slots.length > keep) {
      const slot = slots.shift()
      if (slot) this.#drop(slot)
    }
  }

  forget(workerId: string): void {
    this.evict(workerId, 0)
    const kept = this.#stored.toArray().filter(retained => retained.workerId !== workerId)
    this.#stored = new Fifo()
    for (const retained of kept) this.#stored.push(retained)
  }

  /**
   * A start from the store: everything stored is retained again, past the backlog's limit until the next
   * event, and the counter goes on from the highest position that is left (R38, R40).
   */
  restore(): void {
    const stored = this.#stored.toArray()
    this.#clearRetained()
    for (const retained of stored) this.#keep(retained)
    this.#next = (stored.at(-1)?.position ?? 0) + 1
  }

  reset(): void {
    this.#clearRetained()
    this.#stored = new Fifo()
    this.#next = 1
  }

  #clearRetained(): void {
    this.#byWorker.clear()
    this.#all = new Fifo()
    this.#retainedCount = 0
  }

  #keep(retained: Retained): void {
    const slot = { retained, gone: false }
    let slots = this.#byWorker.get(retained.workerId)
    if (!slots) {
      slots = new Fifo()
      this.#byWorker.set(retained.workerId, slots)
    }
    slots.push(slot)
    this.#all.push(slot)
    this.#retainedCount += 1
  }

  #evictOldest(): void {
    const slot = this.#all.shift()
    if (!slot || slot.gone) return
    this.#byWorker.get(slot.retained.workerId)?.shift()
    this.#drop(slot)
  }

  #drop(slot: Slot): void {
    slot.gone = true
    this.#retainedCount -= 1
  }
}
