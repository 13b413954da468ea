export { emptyClientState, workerKey } from '../reduce.ts'
export type * from '../state.ts'
export { createShojiClient } from './client.ts'
export { ShojiProblem } from './requests.ts'
export type {
  Clock,
  CommandOptions,
  ConnectionState,
  EventSourceLike,
  HistoryOptions,
  Selection,
  Share,
  SharedWorkerLike,
  ShojiClient,
  ShojiClientOptions,
  WorkerRef,
} from './types.ts'
