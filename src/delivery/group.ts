import type { Frame } from '@shoji/web-contract'
import type { Entry, Seq, StreamId } from '../journal/entry.ts'
import type { Commit } from '../journal/journal.ts'
import { burstFrames, type Folding, fold, isBurst } from './fold.ts'
import { encode } from './frames.ts'
import type { Audience } from './selection.ts'

/** Commits that may wait while the group builds a snapshot; past it the group reads pages instead. */
const WAITING_COMMITS_MAX = 256
const PAGE = { maxRows: 1_000, maxBytes: 4 * 1024 * 1024 }

/** One durable commit, indexed by stream once for all groups. */
export interface IndexedCommit {
  readonly after: Seq
  readonly head: Seq
  readonly byStream: ReadonlyMap<StreamId, readonly Entry[]>
}

export interface Member {
  /** Takes bytes that bring the viewer to a position. Never throws, never waits. */
  deliver(bytes: Buffer, position: Seq): void
  /** The group moved on without a frame for anyone. */
  advance(position: Seq): void
  /** The group can't go on: the member reads for itself from where it stands. */
  fallBehind(): void
}

/**
 * Viewers at the head who share an audience: one fold and one encoded buffer for all of them. A slow member
 * leaves on its own; the group waits for nobody.
 */
export class Group {
  readonly audience: Audience
  readonly members = new Set<Member>()
  /** Everything up to here was folded and handed to every member. */
  position: Seq
  /** Text of the views its members were last told. */
  views: string
  readonly #folding: Folding
  #work: Promise<void> | null = null
  #waiting: IndexedCommit[] = []
  #behind = false

  constructor(folding: Folding, audience: Audience, position: Seq, views: string) {
    this.#folding = folding
    this.audience = audience
    this.position = position
    this.views = views
  }

  /** Resolves when the group is between entries: null if it is so now. */
  get settled(): Promise<void> | null {
    return this.#work
  }

  take(commit: IndexedCommit): void {
    if (this.#work !== null) {
      if (this.#waiting.length < WAITING_COMMITS_MAX) this.#waiting.push(commit)
      else this.#behind = true
      return
    }
    if (commit.after !== this.position) {
      this.#behind = true
      this.#begin(this.#catchUp())
      return
    }
    try {
      const work = this.#fold(this.#entriesOf(commit), 0, commit.head)
      if (work !== null) this.#begin(work.then(() => this.#catchUp()))
    } catch {
      this.#dissolve()
    }
  }

  /** Between entries alone: see `settled`. */
  tellViews(views: string, frame: Frame): void {
    this.views = views
    this.#send(encode(frame), this.position)
  }

  /** What one group can't fold stops no other: its members read on by themselves. */
  #dissolve(): void {
    for (const member of [...this.members]) member.fallBehind()
  }

  #begin(work: Promise<void>): void {
    this.#work = work
      .catch(() => this.#dissolve())
      .finally(() => {
        this.#work = null
        // What came when the work had ended and this was not yet known.
        if (this.#waiting.length > 0 && this.members.size > 0) this.#begin(this.#catchUp())
      })
  }

  #entriesOf(commit: IndexedCommit): readonly Entry[] {
    const { streams } = this.audience
    const lists: (readonly Entry[])[] = []
    // Few streams and many commits, or many streams and few: walk the smaller side.
    if (streams.size < commit.byStream.size) {
      for (const stream of streams.keys()) {
        const list = commit.byStream.get(stream)
        if (list !== undefined) lists.push(list)
      }
    } else for (const [stream, list] of commit.byStream) if (streams.has(stream)) lists.push(list)
    if (lists.length <= 1) return lists[0] ?? []
    return lists.flat().sort((a, b) => a.seq - b.seq)
  }

  /** Folds entries into one buffer. Synchronous unless an entry replaces a list; then it returns the rest as a promise. */
  #fold(entries: readonly Entry[], from: number, head: Seq): Promise<void> | null {
    let text = ''
    for (let i = from; i < entries.length; i++) {
      const entry = entries[i]!
      const frame = fold(this.#folding, this.audience, entry)
      if (frame === null) continue
      if (isBurst(frame)) {
        if (text !== '') this.#send(text, entries[i - 1]!.seq)
        return burstFrames(this.#folding, this.audience, frame, this.views).then(({ frames, views }) => {
          this.views = views
          this.#send(frames.map(encode).join(''), entry.seq)
          return this.#fold(entries, i + 1, head) ?? undefined
        })
      }
      text += encode(frame)
    }
    if (text !== '') this.#send(text, head)
    else this.#advance(head)
    return null
  }

  #send(text: string, position: Seq): void {
    this.position = position
    const bytes = Buffer.from(text)
    for (const member of this.members) member.deliver(bytes, position)
  }

  #advance(position: Seq): void {
    this.position = position
    for (const member of this.members) member.advance(position)
  }

  /** Takes what waited, and reads what did not fit, until the group is at the head again. */
  async #catchUp(): Promise<void> {
    const { journal } = this.#folding
    while (this.members.size > 0) {
      const next = this.#waiting.shift()
      if (next !== undefined && next.after === this.position) {
        await this.#fold(this.#entriesOf(next), 0, next.head)
        continue
      }
      if (next !== undefined && next.head <= this.position) continue
      if (next === undefined && !this.#behind) return
      const page = await journal.readAfter([...this.audience.streams.keys()], this.position, PAGE)
      // Retention overtook the group: each member is told on its own way.
      if (page.expired !== undefined) return this.#dissolve()
      await this.#fold(page.entries, 0, page.through)
      if (page.atHead && page.through === journal.head) this.#behind = false
    }
  }
}

/** Once for all groups. */
export function indexCommit(commit: Commit): IndexedCommit {
  const byStream = new Map<StreamId, Entry[]>()
  for (const entry of commit.entries) {
    const list = byStream.get(entry.stream)
    if (list === undefined) byStream.set(entry.stream, [entry])
    else list.push(entry)
  }
  return { after: commit.after, head: commit.head, byStream }
}
