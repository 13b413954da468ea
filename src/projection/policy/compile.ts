/**
 * A document compiled to decisions. Grants join, caps meet: for each class the stricter of the most
 * permissive grant and the strictest cap. Both are taken over sets, so the order of statements can't matter,
 * a cap can only take away and a grant can only add.
 */
import { createHash } from 'node:crypto'
import { CLASSES, type Class, COMMANDS, LEVELS, type Level } from '@shoji/web-contract'
import { createLru } from '../../lib/lru.ts'
import type { CompiledPolicy, Resource, Subject, View } from '../view.ts'
import {
  ANY,
  canonical,
  documentHash,
  type Effect,
  EMPTY_POLICY,
  type PolicyDocument,
  type ResourceMatcher,
  type Statement,
  type SubjectMatcher,
} from './document.ts'

/** What is kept ready; past it the least recently used is decided again. */
export interface CompileLimits {
  readonly subjects: number
  readonly views: number
}

const LIMITS: CompileLimits = { subjects: 4_096, views: 16_384 }
const HASH_HEX = 32

export const compilePolicy = (document: PolicyDocument, limits: CompileLimits = LIMITS): CompiledPolicy => {
  const rules = document.statements.map(statement => compileStatement(document, statement))
  const subjects = createLru<string, SubjectRules>(limits.subjects)
  const views = createLru<string, View>(limits.views)
  /** One object for all equal views: many resources, few different tables. */
  const tables = createLru<string, View>(limits.views)

  const rulesFor = (subject: Subject): SubjectRules =>
    subjects.get(subjectKey(subject), () => {
      const own = rules.filter(rule => rule.who(subject))
      return { rules: own, hash: hash([...new Set(own.map(rule => rule.content))].sort()) }
    })
  return {
    hash: documentHash(document),
    subjectHash: subject => rulesFor(subject).hash,
    view: (subject, resource) => {
      const own = rulesFor(subject)
      return views.get(canonical([own.hash, resourceKey(resource)]), () => {
        const view = decide(own.rules, resource)
        return tables.get(view.hash, () => view)
      })
    },
  }
}

/** In force where no policy is loaded: nothing is shown to anyone. */
export const closedPolicy = (): CompiledPolicy => compilePolicy(EMPTY_POLICY)

interface SubjectRules {
  readonly rules: readonly Rule[]
  readonly hash: string
}

interface Rule {
  readonly who: (subject: Subject) => boolean
  readonly on: (resource: Resource, unknownMatches: boolean) => boolean
  readonly grant: Effect<boolean> | undefined
  readonly cap: Effect<false> | undefined
  /** What it says of resources, without the names it was written under. */
  readonly content: string
}

const compileStatement = (document: PolicyDocument, { who, on, grant, cap }: Statement): Rule => {
  const matchers = own(document.subjects, who)?.any ?? []
  const matcher = own(document.resources, on)
  return {
    who: who === ANY ? () => true : subject => matchers.some(one => matchesSubject(one, subject)),
    // A name that leads nowhere can't come from `parsePolicy`; were it to, its cap holds and its grant does not.
    on:
      on === ANY
        ? () => true
        : (resource, unknownMatches) =>
            matcher === undefined ? unknownMatches : matchesResource(matcher, resource, unknownMatches),
    grant,
    cap,
    content: canonical({ on: on === ANY ? ANY : matcher, grant, cap }),
  }
}

const own = <T>(record: Readonly<Record<string, T>>, key: string): T | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined

const matchesSubject = (matcher: SubjectMatcher, { user, roles, groups }: Subject): boolean => {
  if ('user' in matcher) return matchesName([matcher.user], user)
  return 'role' in matcher
    ? roles.some(role => matchesName([matcher.role], role))
    : groups.some(group => matchesName([matcher.group], group))
}

const matchesResource = (matcher: ResourceMatcher, resource: Resource, unknownMatches: boolean): boolean =>
  matchesName(matcher.source, resource.source) &&
  matchesName(matcher.runtime, resource.runtime) &&
  matchesName(matcher.worker, resource.worker) &&
  (resource.profile === null
    ? unknownMatches || matcher.profile === undefined || matcher.profile.includes(ANY)
    : matchesName(matcher.profile, resource.profile))

/** Exactly and case-sensitively, or any; a key that was left out narrows nothing. */
const matchesName = (names: readonly string[] | undefined, name: string): boolean =>
  names === undefined || names.some(known => known === name || known === ANY)

const decide = (rules: readonly Rule[], resource: Resource): View => {
  const grants = rules.flatMap(({ grant, on }) => (grant !== undefined && on(resource, false) ? [grant] : []))
  const caps = rules.flatMap(({ cap, on }) => (cap !== undefined && on(resource, true) ? [cap] : []))
  const observe = grants.some(grant => grant.observe === true) && !caps.some(cap => cap.observe === false)
  const levels = perClass(name =>
    observe ? stricter(mostOpen(grants, name), strictest(caps, name)) : 'drop',
  )
  const commands = COMMANDS.filter(
    command =>
      grants.some(grant => grant.commands?.includes(command)) &&
      !caps.some(cap => cap.commands?.includes(command)),
  )
  const content = { observe, levels, commands }
  return Object.freeze({ ...content, hash: hash(content) })
}

type Effects = readonly Effect<boolean>[]

const mostOpen = (grants: Effects, name: Class): Level =>
  grants.reduce<Level>((level, { classes }) => looser(level, classes?.[name] ?? 'drop'), 'drop')

const strictest = (caps: Effects, name: Class): Level =>
  caps.reduce<Level>((level, { classes }) => stricter(level, classes?.[name] ?? 'show'), 'show')

const stricter = (a: Level, b: Level): Level => (LEVELS.indexOf(a) >= LEVELS.indexOf(b) ? a : b)
const looser = (a: Level, b: Level): Level => (LEVELS.indexOf(a) <= LEVELS.indexOf(b) ? a : b)

const perClass = (level: (name: Class) => Level): Readonly<Record<Class, Level>> =>
  Object.freeze(Object.fromEntries(CLASSES.map(name => [name, level(name)])) as Record<Class, Level>)

/** JSON keeps parts apart whatever stands in them; the order of roles and groups says nothing. */
const subjectKey = ({ user, roles, groups }: Subject): string =>
  canonical([user, [...roles].sort(), [...groups].sort()])

const resourceKey = ({ source, runtime, worker, profile }: Resource): unknown => [
  source,
  runtime,
  worker,
  profile,
]

const hash = (content: unknown): string =>
  createHash('sha256').update(canonical(content)).digest('hex').slice(0, HASH_HEX)
