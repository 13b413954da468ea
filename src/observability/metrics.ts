import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Counter, Gauge, Registry } from 'prom-client'
import { ShojiError } from '../lib/error.ts'

/** What is read when somebody asks: how many viewers, how long commits take, how large the queue is. */
export interface Readings {
  readonly viewers: () => { readonly live: number; readonly catchingUp: number; readonly starting: number }
  readonly journal: () => Promise<{
    readonly entries: number
    readonly commitMs: number
    readonly quarantined: number
  }>
  readonly queuedBytes: () => number
  readonly policy: string
}

export type Metrics = ReturnType<typeof createMetrics>

/** Counters of one service, in a registry of its own. Labels are closed lists and configured names, never ids. */
export function createMetrics() {
  const registry = new Registry()
  const registers = [registry]
  const counter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name: `shoji_${name}`, help, labelNames, registers })
  return {
    registry,
    disconnects: counter('upstream_disconnects_total', 'Connections to workers that ended, by code', [
      'runtime',
      'code',
    ]),
    rejected: counter('upstream_frames_rejected_total', 'Frames put into quarantine, by cause', [
      'runtime',
      'cause',
    ]),
    paused: counter('upstream_sockets_paused_total', 'Sockets that were not read because ingest was full', [
      'runtime',
    ]),
    discoveryFailed: counter('upstream_discovery_failures_total', 'Listings that failed, by code', [
      'runtime',
      'code',
    ]),
    beyondLimit: new Gauge({
      name: 'shoji_upstream_workers_beyond_limit',
      help: 'Listed workers that are not connected for the limit',
      labelNames: ['runtime'],
      registers,
    }),
    verdicts: counter('upstream_resumes_total', 'Resumes that were judged, by verdict', [
      'runtime',
      'verdict',
    ]),
    resets: counter('upstream_resets_total', 'Lists that were replaced, by reason', ['runtime', 'reason']),
    resyncs: counter('upstream_resyncs_total', 'Snapshots fetched beside a connection, by outcome', [
      'runtime',
      'outcome',
    ]),
    inconsistent: counter('upstream_inconsistent_total', 'Signs of loss before numbering, by sign', [
      'runtime',
      'sign',
    ]),
    untold: counter('envelopes_untold_total', 'Envelopes stored and shown to nobody, told before', [
      'runtime',
      'why',
    ]),
    repeated: counter('envelopes_repeated_total', 'Envelopes dropped as repetitions', ['runtime']),
    malformed: counter('envelopes_malformed_total', 'Envelopes without an event', ['runtime']),
    opened: counter('streams_opened_total', 'Streams opened, by outcome and reason', ['outcome', 'reason']),
    cut: counter('streams_cut_total', 'Streams cut by the server, by reason', ['reason']),
    failed: counter('streams_failed_total', 'Streams whose reading failed and was tried again'),
    commitsFailed: counter(
      'journal_commits_failed_total',
      'Commits that failed and are tried again, by code',
      ['code'],
    ),
    projectionFailed: counter(
      'projection_failures_total',
      'Entries withheld because their projection failed',
    ),
  }
}

/** Gauges that are read when asked for. */
export function readOut({ registry }: Metrics, readings: Readings): void {
  const registers = [registry]
  new Gauge({
    name: 'shoji_viewers',
    help: 'Open streams by state',
    labelNames: ['state'],
    registers,
    collect() {
      const { live, catchingUp, starting } = readings.viewers()
      this.set({ state: 'live' }, live)
      this.set({ state: 'catching_up' }, catchingUp)
      this.set({ state: 'starting' }, starting)
    },
  })
  new Gauge({
    name: 'shoji_ingest_queued_bytes',
    help: 'Bytes handed in and not yet durable',
    registers,
    collect() {
      this.set(readings.queuedBytes())
    },
  })
  new Gauge({
    name: 'shoji_policy_info',
    help: 'Hash of the policy in force',
    labelNames: ['hash'],
    registers,
    collect() {
      this.set({ hash: readings.policy }, 1)
    },
  })
  const journal = (
    name: string,
    help: string,
    of: (stats: Awaited<ReturnType<Readings['journal']>>) => number,
  ) =>
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        this.set(of(await readings.journal()))
      },
    })
  journal('shoji_journal_entries', 'Entries in the journal', stats => stats.entries)
  journal('shoji_journal_commit_seconds', 'Duration of the last commit', stats => stats.commitMs / 1_000)
  journal('shoji_journal_quarantined', 'Frames in quarantine', stats => stats.quarantined)
}

/** `GET /metrics` on a listener of its own, loopback alone: it asks for no credentials. */
export async function serveMetrics(
  { registry }: Metrics,
  at: { readonly host: string; readonly port: number },
): Promise<{ readonly port: number; close(): void }> {
  const server: Server = createServer((request, response) => {
    if (request.method !== 'GET' || request.url !== '/metrics') {
      response.writeHead(404).end()
      return
    }
    registry.metrics().then(
      text => response.writeHead(200, { 'content-type': registry.contentType }).end(text),
      () => response.writeHead(503).end(),
    )
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', cause =>
      reject(
        new ShojiError('address_unusable', `metrics: ${at.host}:${at.port} can't be listened on`, { cause }),
      ),
    )
    server.listen(at.port, at.host, resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
