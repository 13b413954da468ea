import { describe, expect, test } from 'vitest'
import { loadRecording, recordingNames } from '../../src/embedded-runtime/recording.ts'
import { type WalkOptions, walk } from '../_support/recording-walk.ts'

const directory = new URL('../recordings', import.meta.url).pathname

const race = 'the connection was made while an event was on its way: which came first is chance'
const summary = 'what a compactor writes is invented'
const attached = 'attachments and quiet notifications are not imitated'

/**
 * How each recording is walked. In the first generation the Runtime's own echoes, interrupts and ends
 * must be the recorded ones; in the later one their order is chance (R47), so the walk emits them.
 */
const plans: Readonly<Record<string, WalkOptions>> = {
  'burst-lost-blocks': { snapshotsByHead: 'the log has what was lost from the stream (R20)' },
  'compaction-auto': { snapshotsByHead: summary },
  'compaction-failed': { compaction: 'off' },
  'compaction-manual': { snapshotsByHead: summary },
  'evicted-cursor': { echo: 'off', before: { 2: { position: 0x539, workerId: '1' } } },
  'in-flight-turns': { echo: 'off' },
  'input-kinds': { compaction: 'off' },
  'later-compaction': { snapshotsByHead: summary },
  'later-snapshot-in-flight': { skip: { 3: race } },
  'later-sub-worker': { skip: { 2: race } },
  'overlap-in-flight': { echo: 'off', framesLeftOut: true },
  'ping-fence': {
    echo: 'off',
    framesLeftOut: true,
    before: { 2: { position: 0x51e, workerId: '1' } },
    skip: { 4: 'most of its frames were left out', 5: 'most of its frames were left out' },
    skipHttp: [{ asked: /chunks\((300|900)/, because: 'runs that were not recorded' }],
  },
  'protocol-ws-methods': { compaction: 'off' },
  'quiet-worker-evicted': { echo: 'off', before: { 3: { position: 0x539, workerId: '2' } } },
  'reconnect-good-cursor': { echo: 'off', drops: [7] },
  rest: {
    skipHttp: [
      {
        asked: /no-such-repo|01b8a2ce|7b801c2c|903f9200/,
        because: 'repositories and archives are not looked into',
      },
      { asked: /Expected request with/, because: 'the recording does not tell the missing header' },
      {
        asked: /"run_state":"idle".*"outcome":"busy"|future_field|"extra":true/,
        because: 'the end of the run was not recorded',
      },
    ],
  },
  'restart-fs-store-deleted-worker': { restartBefore: [3] },
  'restart-fs-store-evicted': {
    echo: 'off',
    framesLeftOut: true,
    before: { 2: { position: 0x539, workerId: '1' } },
    restartBefore: [3],
  },
  'store-torn-line': { torn: '1' },
  'system-items': { snapshotsByHead: attached },
  'two-workers': { echo: 'off' },
}

/** What cannot be walked, and what shows the same instead. */
const notWalked: Readonly<Record<string, string>> = {
  'later-burst-lost':
    'eight thousand events in a burst, of which the recording has one connection: no request or snapshot to compare but those of later-plain-text',
  'later-ping-fence': 'the events before the connections were not recorded; see the fence in runtime.test.ts',
  'later-slow-reader': 'depends on the buffers of the system; see the overrun in runtime.test.ts',
  'later-snapshot-ahead': 'a race within the Runtime (R62, R63), chosen out of 1,355 connections',
  'later-truncated-tool-output': 'an overrun by chance; the rest is truncated-tool-output',
  'slow-reader': 'depends on the buffers of the system; see the overrun in runtime.test.ts',
  'slow-reader-queue': 'notes alone',
  'snapshot-ahead': 'a race within the Runtime (R62), chosen out of 1,425 connections',
}

const names = await recordingNames(directory)
const walked = names.filter(name => notWalked[name] === undefined)

describe('the embedded Runtime, asked as the real one was', () => {
  test.each(walked)('answers and says what was recorded in %s', async name => {
    const recording = await loadRecording(directory, name)
    const later = recording.generation === 'protocol-ws'
    const seen = await walk(recording, { echo: later ? 'off' : 'on', ...plans[name] })
    expect(seen.differences.slice(0, 5)).toEqual([])
    expect(seen.requests + seen.frames).toBeGreaterThan(0)
    // Without a plan nothing is left out: the snapshots are compared whole.
    if (plans[name] === undefined && seen.frames > 0) expect(seen.wholeSnapshots).toBeGreaterThan(0)
  })

  test('names only recordings that exist as not walked', () => {
    expect(Object.keys(notWalked).filter(name => !names.includes(name))).toEqual([])
    expect(Object.keys(plans).filter(name => !names.includes(name))).toEqual([])
  })
})
