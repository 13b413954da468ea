import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { itemSchema } from './frames.ts'
import {
  BYE_REASONS,
  CLASSES,
  EVENT_NAMES,
  FRAME_BYTES_MAX,
  FRAME_NAMES,
  FRAMES_WITH_ID,
  GAP_REASONS,
  HEARTBEAT_MS,
  HISTORY_ITEMS,
  HISTORY_PAGE_ITEMS,
  LEAF_UNITS_MAX,
  LEVELS,
  PROBLEMS,
  PROTOCOL_VERSION,
  RESET_REASONS,
  SELECTION_WORKERS_MAX,
  UPSTREAM_STATES,
} from './index.ts'
import { TEXT_UNITS_MAX } from './item-text.ts'

const page = readFileSync(new URL('./PROTOCOL.md', import.meta.url), 'utf8')

const cells = (line: string): string[] =>
  line
    .split('|')
    .slice(1, -1)
    .map(cell => cell.trim())

/** Rows of the table with this head, cells without their backticks. */
function table(head: string): string[][] {
  const lines = page.split('\n')
  const start = lines.findIndex(line => cells(line).join(' | ') === head)
  expect(start, `no table "${head}"`).toBeGreaterThan(0)
  const rows = lines.slice(start + 2)
  const end = rows.findIndex(line => !line.startsWith('|'))
  return rows.slice(0, end).map(line => cells(line).map(cell => cell.replace(/^`([^`]*)`$/, '$1')))
}

/** The names in backticks of the line that begins so. */
function names(begin: string): string[] {
  const line = page.split('\n').find(l => l.startsWith(begin)) ?? ''
  return [...line.split('Their fields')[0]!.matchAll(/`([^`]+)`/g)].map(m => m[1]!)
}

const firsts = (head: string): string[] => table(head).map(([first]) => first ?? '')

describe('PROTOCOL.md says what the code says', () => {
  it('of problem codes and their status', () => {
    expect(table('code | status')).toEqual(
      Object.entries(PROBLEMS).map(([code, status]) => [code, String(status)]),
    )
  })

  it('of frames and which of them have an id', () => {
    expect(table('frame | id | data').map(([name, id]) => [name, id])).toEqual(
      FRAME_NAMES.map(name => [name, FRAMES_WITH_ID.has(name) ? 'yes' : 'no']),
    )
  })

  it('of reasons', () => {
    expect(firsts('reason | in | meaning')).toEqual([...RESET_REASONS, ...GAP_REASONS])
    expect(firsts('`bye` reason | what to do')).toEqual(BYE_REASONS)
    expect(firsts('upstream | meaning')).toEqual(UPSTREAM_STATES)
  })

  it('of events, classes, levels and item kinds', () => {
    expect(names('Events: ')).toEqual(EVENT_NAMES)
    expect(names('Classes: ')).toEqual(CLASSES)
    expect(page).toContain(`Levels are ${LEVELS.map(l => `\`${l}\``).join(', ')};`)
    expect(firsts('kind | fields | begun or changed by')).toEqual(itemSchema.shape.kind.options)
  })

  it('of limits', () => {
    const range = (r: { min: number; max: number; default: number }): string =>
      `${r.min} to ${r.max}, default ${r.default}`
    expect(table('what | limit').map(([, limit]) => limit)).toEqual([
      range(HISTORY_ITEMS),
      range(HISTORY_PAGE_ITEMS),
      String(SELECTION_WORKERS_MAX),
      `${FRAME_BYTES_MAX} bytes`,
      `${LEAF_UNITS_MAX} UTF-16 units`,
      `${TEXT_UNITS_MAX} UTF-16 units`,
      `${HEARTBEAT_MS} ms`,
    ])
  })

  it('of its version, and numbers every rule once', () => {
    expect(page).toContain(`# The Shoji web protocol, version ${PROTOCOL_VERSION}`)
    const rules = [...page.matchAll(/^[*-] \[(\d+)\.(\d+)\]/gm)].map(
      m => [Number(m[1]), Number(m[2])] as const,
    )
    const next = new Map<number, number>()
    for (const [section, rule] of rules) {
      expect(rule).toBe((next.get(section) ?? 0) + 1)
      next.set(section, rule)
    }
    expect(rules.length).toBeGreaterThan(40)
  })
})
