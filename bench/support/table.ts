/** One line of the table: a figure beside its bar, and beside what it is a ratio to. */
export interface Row {
  readonly bench: string
  readonly what: string
  readonly figure: string
  readonly ratio?: string
  readonly bar?: string
  /** Absent where nothing is asked of the figure. */
  readonly met?: boolean
}

export interface BenchResult {
  readonly rows: readonly Row[]
  /** What a reader has to know to read the figures; printed under the table. */
  readonly notes: readonly string[]
  /** Everything measured, for the JSON file. */
  readonly data: unknown
}

const HEAD = ['bench', 'what', 'figure', 'ratio', 'bar', ''] as const

export const formatTable = (rows: readonly Row[]): string => {
  const cells = rows.map(({ bench, what, figure, ratio, bar, met }) => [
    bench,
    what,
    figure,
    ratio ?? '',
    bar ?? '',
    met === undefined ? '' : met ? 'met' : 'MISSED',
  ])
  const all = [[...HEAD], ...cells]
  const widths = HEAD.map((_, column) => Math.max(...all.map(row => row[column]?.length ?? 0)))
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  return [line(all[0] ?? []), line(widths.map(width => '-'.repeat(width))), ...all.slice(1).map(line)].join(
    '\n',
  )
}
