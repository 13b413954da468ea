import { expect, it } from 'vitest'
import { loadRecording, recordingNames } from '../../src/embedded-runtime/recording.ts'
import { type IdlePoint, idlePoints } from './_said-walk.ts'

/**
 * Every recording, from every connection without a cursor: at each moment at which the worker was idle, all of
 * its events were heard and another connection brought a snapshot, that snapshot is held against what was told.
 */
const directory = new URL('../recordings/', import.meta.url).pathname
const names = await recordingNames(directory)

/** Where the two truly differ, and why. */
const DIFFERENT: Readonly<Record<string, string>> = {
  'burst-lost-blocks 1>2': 'a text and a call never came (R20)',
  'compaction-auto 1>2': 'a compaction is told by snapshots only (R24, R37)',
  'compaction-manual 1>2': 'a compaction is told by snapshots only (R24, R37)',
  'restart-no-store 1>4': 'another worker with the same id (R39)',
}

/** Where the log has items that are never told live in the first generation (R24). */
const MORE: Readonly<Record<string, readonly string[]>> = {
  'error 1>2': ['interrupt', 'interrupt', 'interrupt'],
  'pause-resume 1>4': ['interrupt', 'interrupt'],
  'pause-resume 3>4': ['interrupt', 'interrupt'],
  'retry 1>2': ['interrupt'],
  'system-items 1>3': ['file_attachment', 'file_attachment', 'notification', 'notification', 'worker_event'],
}

const POINTS = 109
const RECORDINGS_WITH_POINTS = 47

const place = ({ recording, from, to }: IdlePoint): string => `${recording} ${from}>${to}`

// biome-ignore lint/suspicious/noExplicitAny: recorded JSON, looked at by an oracle of its own
const kindOf = (data: any): string => data.item?.kind

it('says the same as every snapshot at an idle point, but where the Runtime had told less', async () => {
  const points: IdlePoint[] = []
  for (const name of names) points.push(...idlePoints(await loadRecording(directory, name)))

  const differing = points.filter(({ comparison }) => comparison.verdict === 'differs').map(place)
  expect(differing).toEqual(Object.keys(DIFFERENT))

  const more = points.flatMap(point =>
    point.comparison.verdict === 'more' ? [[place(point), point.comparison.missing] as const] : [],
  )
  expect(more.flatMap(([, missing]) => missing).every(({ event }) => event === 'system_item')).toBe(true)
  expect(Object.fromEntries(more.map(([at, missing]) => [at, missing.map(m => kindOf(m.data))]))).toEqual(
    MORE,
  )

  expect(points).toHaveLength(POINTS)
  expect(new Set(points.map(p => p.recording)).size).toBe(RECORDINGS_WITH_POINTS)
  // Begun in the middle of a run too.
  expect(points.filter(p => p.begunRunning && p.comparison.verdict === 'same').length).toBeGreaterThanOrEqual(
    8,
  )
})

it('names the classes in which the loss of a burst shows', async () => {
  const [point] = idlePoints(await loadRecording(directory, 'burst-lost-blocks'))
  expect(point?.comparison).toEqual({
    verdict: 'differs',
    classes: ['assistant_text', 'tool_call', 'tool_args'],
  })
})
