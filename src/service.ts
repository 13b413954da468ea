import { randomBytes } from 'node:crypto'
import type { Hono } from 'hono'
import type { Config } from './config/config.ts'
import { createDelivery } from './delivery/delivery.ts'
import type { Folding } from './delivery/fold.ts'
import { createLists } from './delivery/lists.ts'
import { type KnownWorker, viewsOf } from './delivery/selection.ts'
import { createApp } from './http/app.ts'
import type { Env } from './http/context.ts'
import { openHttpServer } from './http/server.ts'
import { createAuthenticator } from './identity/authenticator.ts'
import { sessionCookie } from './identity/cookie.ts'
import { createIdentify } from './identity/identify.ts'
import { createMemorySessions } from './identity/sessions.ts'
import type { CallerRules } from './identity/who.ts'
import { createCursors } from './journal/cursor.ts'
import { createIngest } from './journal/ingest.ts'
import type { JournalStats } from './journal/journal.ts'
import { type JournalOptions, openJournal, type SqliteJournal } from './journal/sqlite/journal.ts'
import { ShojiError } from './lib/error.ts'
import { isLoopback } from './lib/loopback.ts'
import { createObservability } from './observability/events.ts'
import type { Logger } from './observability/log.ts'
import { createMetrics, readOut, serveMetrics } from './observability/metrics.ts'
import { createIds } from './projection/ids.ts'
import { closedPolicy } from './projection/policy/compile.ts'
import { loadPolicyFile } from './projection/policy/file.ts'
import { createStrip } from './projection/strip.ts'
import type { CompiledPolicy, Subject } from './projection/view.ts'
import type { RuntimeLimits } from './sources/runtime/limits.ts'
import { createRuntimeSource } from './sources/runtime/runtime-source.ts'
import type { Source, SourceSink } from './sources/source.ts'
import { createUpstreams } from './sources/upstreams.ts'

/** What tests and benches may replace. */
export interface Overrides {
  readonly journal?: Partial<JournalOptions>
  /** Hands out the journal while it is served from: for faults and deletions under load. */
  readonly onJournal?: (journal: SqliteJournal) => void
  readonly retainEveryMs?: number
  /** False: no snapshot is fetched beside a connection. For streams that no Runtime has logged. */
  readonly resync?: boolean
  readonly runtimeLimits?: Partial<RuntimeLimits>
  readonly random?: () => number
  /** Further pages beside the API: the demo's. */
  readonly pages?: Hono<Env>
  /** Sources begin when this resolves: for those who must be watching from the first frame. */
  readonly sourcesAfter?: Promise<unknown>
}

export interface Service {
  readonly url: string
  readonly port: number
  readonly policyHash: string
  /** Where metrics are served, if they are. */
  readonly metricsPort?: number
  stats(): Promise<JournalStats>
  /** Says `bye` to every viewer, ends ingest, closes the journal. Resolves within the grace. */
  stop(): Promise<void>
}

const RETAIN_EVERY_MS = 60_000

/** The one file that knows every stage. Rejects where something is not right at the start, leaving nothing open. */
export async function startService(config: Config, log: Logger, overrides: Overrides = {}): Promise<Service> {
  const now = Date.now
  const random = overrides.random ?? Math.random
  const policy = await loadPolicy(config)
  const metrics = createMetrics()
  const observability = createObservability(log, metrics)
  const server = await openHttpServer(config.listen)
  const journal = await openJournal({
    dataDir: config.dataDir,
    events: observability.journal,
    ...overrides.journal,
  }).catch(error => {
    void server.close()
    throw error
  })
  overrides.onJournal?.(journal)
  const ending = new AbortController()
  try {
    const { neverStore } = config.journal
    const ingest = await createIngest({
      journal,
      events: observability.ingest,
      ...(overrides.resync !== undefined && { resync: overrides.resync }),
      ...(neverStore.length > 0 && { strip: createStrip(neverStore) }),
    })
    const upstreams = createUpstreams()
    const sink: SourceSink = {
      open: (ref, profile) => ingest.open(ref, profile),
      profileChanged: (ref, profile) => ingest.setProfile(ref, profile),
      get queuedBytes() {
        return journal.queuedBytes
      },
      maxQueuedBytes: config.limits.maxIngestBytes,
      async relieved(signal) {
        while (journal.queuedBytes > config.limits.maxIngestBytes / 2)
          await journal.changedSince(journal.head, signal)
      },
      status: change => upstreams.set(change),
    }
    const sources = new Map<string, Source>(
      config.runtimes.map(({ id, url, token, dialect }) => [
        id,
        createRuntimeSource({ id, url, dialect, ...(token && { token: token.reveal() }) }, sink, {
          events: observability.source,
          random,
          ...(overrides.runtimeLimits && { limits: overrides.runtimeLimits }),
        }),
      ]),
    )
    const workers = (): KnownWorker[] => knownWorkers(sources, ingest.streams())
    const folding: Folding = {
      journal,
      ids: createIds(journal.keys.id),
      cursors: createCursors({
        key: journal.keys.cursor,
        generations: () => journal.generations,
        head: () => journal.head,
      }),
      lists: createLists(),
      monotonicMs: () => performance.now(),
      views: audience => viewsOf(audience, workers()),
      onProjectionFailed(entry, error) {
        metrics.projectionFailed.inc()
        log.error({ seq: entry.seq, event: entry.event, err: error }, 'projection failed: entry withheld')
      },
    }
    const delivery = createDelivery({
      folding,
      ingest,
      upstreams,
      limits: {
        streams: config.limits.streams,
        streamsPerUser: config.limits.streamsPerUser,
        bufferedBytes: config.limits.maxBufferedBytes,
        heartbeatMs: config.stream.heartbeatMs,
        rotateMs: config.stream.rotateMs,
        stalledMs: config.stream.stallMs,
      },
      now,
      random,
      events: observability.delivery,
    })

    let stopping = false
    const app = createApp(
      {
        ...identityDeps(config, server.port, now),
        policy: () => policy,
        delivery,
        folding,
        workers,
        runtimes: config.runtimes.map(r => r.id),
        upstream: (runtime, worker) =>
          sources.get(runtime)?.upstream(worker) ?? { runtime, upstream: 'gone', since: now() },
        wanted: (runtime, worker) => sources.get(runtime)?.wanted(worker),
        async sendInput(at, _subject, content) {
          const source = sources.get(at.runtime)
          if (source === undefined) throw new ShojiError('worker_not_found', 'no such worker')
          await source.sendInput(at.worker, content, ending.signal)
          return {
            id: `cmd_${randomBytes(12).toString('base64url')}`,
            command: 'input.user',
            state: 'done',
            cursor: null,
          }
        },
        statusOf: (worker, subject) => statusOf(policy, worker, subject, ingest.status),
        ready: () => {
          const { state } = journal.health
          return { ready: state === 'ok' && !stopping, detail: { journal: state, policy: policy.hash } }
        },
        limits: { requestBytes: config.limits.maxRequestBytes, history: config.stream.historyItems },
        now,
        log,
      },
      overrides.pages,
    )
    readOut(metrics, {
      viewers: () => delivery.viewers,
      journal: () => journal.stats(),
      queuedBytes: () => journal.queuedBytes,
      policy: policy.hash,
    })
    const exposed = config.metrics && (await serveMetrics(metrics, config.metrics))
    server.serve((request, env) => app.fetch(request, env))
    const running = [...sources.values()].map(async source => {
      await overrides.sourcesAfter
      await source
        .run(ending.signal)
        .catch(error => log.error({ err: error, runtime: source.runtime }, 'source ended'))
    })
    let retaining = false
    const retention = setInterval(() => {
      // One pass at a time: half of a large journal takes longer than the pause between two.
      if (retaining || stopping || journal.health.state !== 'ok') return
      retaining = true
      void retain(journal, config, now())
        .catch(error => stopping || log.error({ err: error }, 'retention failed'))
        .finally(() => {
          retaining = false
        })
    }, overrides.retainEveryMs ?? RETAIN_EVERY_MS)
    retention.unref()
    const { url, port } = server
    log.info({ port, policy: policy.hash }, 'serving')

    return {
      url,
      port,
      policyHash: policy.hash,
      ...(exposed !== undefined && { metricsPort: exposed.port }),
      stats: () => journal.stats(),
      async stop() {
        stopping = true
        clearInterval(retention)
        delivery.drain('shutdown', 5_000)
        ending.abort()
        await Promise.race([
          Promise.all([...running, server.close()]),
          new Promise(resolve => setTimeout(resolve, config.shutdown.graceMs / 2).unref()),
        ])
        delivery.stop()
        exposed?.close()
        server.destroy()
        await journal.close()
        log.info({}, 'stopped')
      },
    }
  } catch (error) {
    ending.abort()
    void server.close()
    await journal.close()
    throw error
  }
}

async function loadPolicy(config: Config): Promise<CompiledPolicy> {
  if (config.policy.file === undefined) return closedPolicy()
  return (await loadPolicyFile(config.policy.file)).policy
}

function identityDeps(config: Config, port: number, now: () => number) {
  const { publicOrigin } = config
  const cookie = sessionCookie({ publicOrigin, port })
  const rules: CallerRules = {
    publicOrigin,
    hosts: config.hosts,
    corsOrigins: config.cors.origins,
    loopbackBind: isLoopback(config.listen.host),
    authMode: config.auth.mode,
    cookie,
  }
  const sessions = createMemorySessions(randomBytes)
  const authenticator = createAuthenticator(config.auth, { now })
  return {
    rules,
    cookie,
    sessions,
    identify: createIdentify({ authenticator, sessions, cookie, rules, now }),
  }
}

/** Listed workers and journaled ones, one row each. */
function knownWorkers(sources: ReadonlyMap<string, Source>, streams: readonly KnownStream[]): KnownWorker[] {
  const known = new Map<string, KnownWorker>()
  for (const stream of streams) {
    const { source, runtime, worker, profile } = stream
    known.set(`${runtime}/${worker}`, { source, runtime, worker, profile, stream })
  }
  for (const [runtime, source] of sources)
    for (const { worker, profile } of source.workers()) {
      const name = `${runtime}/${worker}`
      if (!known.has(name))
        known.set(name, { source: 'runtime', runtime, worker, profile, stream: undefined })
    }
  return [...known.values()]
}

type KnownStream = NonNullable<KnownWorker['stream']>

function statusOf(
  policy: CompiledPolicy,
  worker: KnownWorker,
  subject: Subject,
  status: (stream: KnownStream['id']) => string | null,
): string | null {
  const level = policy.view(subject, worker).levels.lifecycle
  if (worker.stream === undefined || level === 'drop') return null
  return level === 'mask' ? '' : status(worker.stream.id)
}

async function retain(journal: SqliteJournal, config: Config, now: number): Promise<void> {
  const { ageMs, maxBytes, maxEntries } = config.journal.retain
  // Also of Runtimes that are no longer configured: what is stored of them grows old as well.
  const runtimes = new Set((await journal.streams()).map(stream => stream.runtime))
  for (const runtime of runtimes)
    await journal.retain({ maxAgeMs: ageMs, maxBytes, maxEntries, runtime }, now)
}
