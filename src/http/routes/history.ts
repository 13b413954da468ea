import { HISTORY_PAGE_ITEMS, type HistoryPage } from '@shoji/web-contract'
import { Hono } from 'hono'
import { pageCursor } from '../../delivery/fold.ts'
import { readGrown, readItem, readItems } from '../../delivery/history.ts'
import { pageTag, type Sight } from '../../delivery/selection.ts'
import { asSeq, type Key } from '../../journal/entry.ts'
import { ShojiError } from '../../lib/error.ts'
import { asRecord, stringifyJson } from '../../lib/json.ts'
import type { Subject } from '../../projection/view.ts'
import type { Env, HttpDeps } from '../context.ts'
import { findWorker, sightOf } from '../find.ts'
import { wholeNumber } from '../query.ts'

const PAGE_UNITS_MAX = 512 * 1024

/** Pages of the current list, and the rest of what was cut for its size. Both pass the same projection. */
export function historyRoutes(deps: HttpDeps): Hono<Env> {
  const app = new Hono<Env>()
  const { folding } = deps
  const { journal } = folding

  app.get('/api/runtimes/:runtime/workers/:worker/history', async c => {
    const { runtime, worker } = c.req.param()
    const maxItems = wholeNumber(c.req.query('limit'), 'limit', HISTORY_PAGE_ITEMS)
    const { subject } = c.var
    const found = findWorker(deps, subject, runtime, worker)
    const sight = sightOf(found)
    const empty: HistoryPage = { items: [], earlier: null }
    if (sight === null) return c.json(empty)
    const through = journal.head
    const before = decodeBefore(c.req.query('before'), sight, subject) ?? {
      seq: asSeq(through + 1),
      index: 0,
    }
    const replacing = await journal.readReplacing(sight.record.id, through)
    // Older lists are reached by export alone, so that paging never tells a conversation twice.
    if (replacing !== null && before.seq < replacing.seq) return c.json(empty)
    const page = await readItems(folding, sight, {
      before,
      through,
      replacing: asSeq(replacing?.seq ?? 0),
      maxItems,
      maxBytes: PAGE_UNITS_MAX,
    })
    const earlier =
      page.earlier && pageCursor(folding, { policy: deps.policy(), subject }, sight, page.earlier)
    const answer: HistoryPage = { items: [...page.items].reverse(), earlier }
    return c.json(answer)
  })

  app.get('/api/runtimes/:runtime/workers/:worker/items/:item/rest', async c => {
    const { runtime, worker, item: id } = c.req.param()
    const sight = sightOf(findWorker(deps, c.var.subject, runtime, worker))
    const place = folding.ids.open(id)
    if (sight === null || place?.stream !== sight.record.id) throw notFound()
    const through = journal.head
    const replacing = await journal.readReplacing(sight.record.id, through)
    if (replacing !== null && place.key.seq < replacing.seq) throw notFound()
    const list = place.key.seq === replacing?.seq ? folding.lists.of(replacing) : null
    const item = await readItem(folding, sight, place.key, through, list)
    const pointer = c.req.query('at') ?? ''
    let text = item === null ? undefined : leafAt(item, pointer)
    if (typeof text === 'string' && item?.cut?.some(cut => cut.at === pointer))
      text = await readGrown(folding, sight, { key: place.key, through, list, pointer })
    if (text === undefined) throw notFound()
    c.header('content-type', 'text/plain; charset=utf-8')
    c.header('cache-control', 'no-store')
    return c.body(typeof text === 'string' ? text : stringifyJson(text))
  })

  function decodeBefore(text: string | undefined, sight: Sight, subject: Subject): Key | null {
    if (text === undefined || text === '') return null
    const tag = pageTag(journal.keys.id, deps.policy(), subject, sight.record.id)
    const decoded = folding.cursors.decodePage(text, tag)
    if (decoded.ok) return decoded.key
    if (decoded.reason === 'cursor_malformed') throw new ShojiError('cursor_malformed', 'no cursor of a page')
    throw new ShojiError('view_changed', 'the page was made under another view')
  }

  return app
}

const notFound = (): ShojiError => new ShojiError('item_not_found', 'no such item')

/** The leaf that a JSON pointer names. Own fields alone: no pointer reaches a prototype. */
function leafAt(item: unknown, at: string): unknown {
  let value: unknown = item
  for (const escaped of at.split('/').slice(1)) {
    const part = escaped.replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(value)) value = /^\d{1,6}$/.test(part) ? value[Number(part)] : undefined
    else value = Object.hasOwn(asRecord(value), part) ? asRecord(value)[part] : undefined
  }
  return value
}
