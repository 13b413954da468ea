import type { Generation } from './events.ts'
import type { EmbeddedWorker } from './worker.ts'

const digest = 'sha256:0000000000000000000000000000000000000000000000000000000000000000'

const profileSource =
  `{"id":"demo-archive","digest":"${digest}","size_bytes":3072,` +
  `"source_graph":{"source_count":1,"total_source_bytes":243,"entrypoints":{"demo":"profiles/demo.dcdl"},"import_count":0}}`

const commit = '0000000000000000000000000000000000000000'

/** Without the braces, so that a listing can add a field. */
export const workingDirectorySummary = (worker: EmbeddedWorker, generation: Generation): string => {
  const id = JSON.stringify(worker.workingDirectoryId)
  const refs =
    generation === 'events-ws'
      ? `"requested_selector":"HEAD","materializer_kind":"local_git_worktree","resolved_commit":"${commit}","resolved_tree":"${commit}"`
      : `"creation_selector":"HEAD","creation_ref":"${commit}","current_ref":"${commit}","materializer_kind":"local_git_worktree"`
  return `"working_directory_id":${id},"repository_id":"demo-repo",${refs},"cleanup_target":{"kind":"git_worktree","working_directory_id":${id},"repository_id":"demo-repo"},"status":"active","cleanliness":"clean"`
}

/** With a comma before it; empty for a worker without a working directory. */
const directoryJson = (worker: EmbeddedWorker, generation: Generation): string =>
  worker.cwd === '' ? '' : `,"working_directory":{"summary":{${workingDirectorySummary(worker, generation)}}}`

const profileJson = (worker: EmbeddedWorker): string =>
  `"profile":{"kind":"named","value":${JSON.stringify(worker.options.profile ?? 'demo')}}`

/** A worker as the catalog of the first generation shows it: `status` is its life, activity is `run_state` (R4). */
const firstGeneration = (worker: EmbeddedWorker): string => {
  const id = worker.idJson
  const directory = directoryJson(worker, 'events-ws')
  const last = worker.lastResult === undefined ? '' : `,"last_result":${JSON.stringify(worker.lastResult)}`
  return (
    `{"worker_ref":{"worker_id":${id}},"worker_id":${id},"status":"${worker.life}",` +
    `"execution":{"backend":"connected","run_state":"${worker.runState}","binding":{"backend_id":"worker-crate"},` +
    `${directory.slice(1)}${directory === '' ? last.slice(1) : last}},` +
    `${profileJson(worker)},"profile_source":${profileSource},"last_event_id":${worker.lastEventId}}`
  )
}

/** As the later catalog shows it: `status` is the activity, or `stopped` (R49). */
const laterGeneration = (worker: EmbeddedWorker): string => {
  const id = worker.idJson
  const status = worker.life === 'stopped' ? 'stopped' : worker.activity
  return (
    `{"worker_ref":{"worker_id":${id}},"worker_id":${id},"status":"${status}","workspace_id":"local",` +
    `${directoryJson(worker, 'protocol-ws').slice(1)}${worker.cwd === '' ? '' : ','}${profileJson(worker)},"display_name":${JSON.stringify(worker.options.displayName ?? 'Demo worker')},"profile_source":${profileSource}}`
  )
}

export const workerJson = (worker: EmbeddedWorker, generation: Generation): string =>
  generation === 'events-ws' ? firstGeneration(worker) : laterGeneration(worker)
