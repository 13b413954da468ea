/**
 * The algebra of the policy: caps only take away, grants only give, order and form never matter, and no
 * input makes a decision fail.
 */
import { CLASSES, COMMANDS, LEVELS } from '@shoji/web-contract'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { compilePolicy } from '../../src/projection/policy/compile.ts'
import type { PolicyDocument, Statement } from '../../src/projection/policy/document.ts'
import { parsePolicy } from '../../src/projection/policy/parse.ts'
import type { Resource, Subject, View } from '../../src/projection/view.ts'

const seed = Date.now() & 0x7fffffff
const check = <T>(property: fc.IProperty<T>, numRuns = 500): void => {
  console.log(`seed ${seed}`)
  fc.assert(property, { seed, numRuns })
}

const NAMES = ['rtA', 'rtAB', 'rt*', 'foo.bar', 'foo_bar']
const name = fc.constantFrom(...NAMES)
const nameOrAny = fc.constantFrom(...NAMES, '*')
const level = fc.constantFrom('show', 'mask', 'drop' as const)
const SUBJECTS = ['s0', 's1', 's2']
const RESOURCES = ['r0', 'r1', 'r2']

const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
const classes = fc.dictionary(fc.constantFrom(...CLASSES), level, {
  maxKeys: CLASSES.length,
  noNullPrototype: true,
})
const commands = fc.uniqueArray(fc.constantFrom(...COMMANDS))

const matcher = fc.oneof(
  nameOrAny.map(user => ({ user })),
  nameOrAny.map(role => ({ role })),
  nameOrAny.map(group => ({ group })),
)
const names = fc.uniqueArray(nameOrAny, { minLength: 1, maxLength: 3 })
const resourceMatcher = fc
  .record({ runtime: optional(names), worker: optional(names), profile: optional(names) })
  .map(keys => ({ source: ['runtime'], ...keys }))

const grant = fc.record({ observe: fc.boolean(), classes, commands })
const cap = fc.record({ observe: optional(fc.constant(false as const)), classes, commands })
const target = {
  who: fc.constantFrom('*', ...SUBJECTS),
  on: fc.constantFrom('*', ...RESOURCES),
}
const grantStatement = fc.record({ id: fc.constant('x'), ...target, grant })
const capStatement = fc.record({ id: fc.constant('x'), ...target, cap })
const statements = fc.array(fc.oneof(grantStatement, grantStatement, capStatement), { maxLength: 8 })

const dictionary = <T>(keys: readonly string[], value: fc.Arbitrary<T>) =>
  fc
    .tuple(...keys.map(() => value))
    .map(values => Object.fromEntries(keys.map((key, n) => [key, values[n] as T])))

const frame = fc.record({
  subjects: dictionary(SUBJECTS, fc.record({ any: fc.array(matcher, { minLength: 1, maxLength: 2 }) })),
  resources: dictionary(RESOURCES, resourceMatcher),
})
const subject: fc.Arbitrary<Subject> = fc.record({
  user: name,
  roles: fc.array(name, { maxLength: 3 }),
  groups: fc.array(name, { maxLength: 3 }),
})
const resource: fc.Arbitrary<Resource> = fc.record({
  source: fc.constantFrom('runtime', 'mcp' as const),
  runtime: name,
  worker: name,
  profile: fc.option(name),
})

type Frame = Pick<PolicyDocument, 'subjects' | 'resources'>
const compile = (parts: Frame, list: readonly Statement[]) =>
  compilePolicy({ version: 1, ...parts, statements: list.map((one, n) => ({ ...one, id: `s${n}` })) })

/** Whether `a` shows nothing that `b` doesn't. */
const showsNoMore = (a: View, b: View): boolean =>
  (!a.observe || b.observe) &&
  CLASSES.every(one => LEVELS.indexOf(a.levels[one]) >= LEVELS.indexOf(b.levels[one])) &&
  a.commands.every(one => b.commands.includes(one))

it('adding a cap never shows more', () => {
  check(
    fc.property(
      frame,
      statements,
      capStatement,
      fc.nat(),
      subject,
      resource,
      (parts, list, added, at, who, what) => {
        const before = compile(parts, list).view(who, what)
        const after = compile(parts, list.toSpliced(at % (list.length + 1), 0, added)).view(who, what)
        expect(showsNoMore(after, before)).toBe(true)
      },
    ),
  )
})

it('adding a grant never shows less', () => {
  check(
    fc.property(
      frame,
      statements,
      grantStatement,
      fc.nat(),
      subject,
      resource,
      (parts, list, added, at, who, what) => {
        const before = compile(parts, list).view(who, what)
        const after = compile(parts, list.toSpliced(at % (list.length + 1), 0, added)).view(who, what)
        expect(showsNoMore(before, after)).toBe(true)
      },
    ),
  )
})

it('every permutation of the statements decides the same', () => {
  const shuffled = statements.chain(list =>
    fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
  )
  check(
    fc.property(frame, shuffled, subject, resource, (parts, [list, other], who, what) => {
      const [a, b] = [compile(parts, list), compile(parts, other)]
      expect(b.view(who, what)).toEqual(a.view(who, what))
      expect(b.subjectHash(who)).toBe(a.subjectHash(who))
    }),
  )
})

it('the order of roles and groups, and one named twice, decide nothing', () => {
  check(
    fc.property(frame, statements, subject, resource, (parts, list, who, what) => {
      const policy = compile(parts, list)
      const other = {
        ...who,
        roles: [...who.roles, ...who.roles].reverse(),
        groups: [...who.groups].reverse(),
      }
      expect(policy.view(other, what)).toBe(policy.view(who, what))
      expect(policy.subjectHash(other)).toBe(policy.subjectHash(who))
    }),
  )
})

it('without a statement that matches, nothing is shown: a rule for one name never covers another', () => {
  check(
    fc.property(name, name, grant, (one, other, effect) => {
      const parts = { subjects: { s: { any: [{ user: one }] } }, resources: { r: { runtime: [one] } } }
      const policy = compile(parts, [{ id: 'x', who: 's', on: 'r', grant: effect }])
      const what: Resource = { source: 'runtime', runtime: other, worker: 'w', profile: null }
      const view = policy.view({ user: other, roles: [], groups: [] }, what)
      if (one !== other) expect(view).toMatchObject({ observe: false, commands: [] })
      else expect(view.observe).toBe(effect.observe)
    }),
  )
})

it('a profile that is not known shows no more than any profile it may turn out to be', () => {
  check(
    fc.property(frame, statements, subject, resource, name, (parts, list, who, what, profile) => {
      const policy = compile(parts, list)
      const unknown = policy.view(who, { ...what, profile: null })
      expect(showsNoMore(unknown, policy.view(who, { ...what, profile }))).toBe(true)
    }),
  )
})

it('hashes are equal exactly where the tables are, and equal subject hashes give equal views', () => {
  check(
    fc.property(
      frame,
      statements,
      statements,
      subject,
      subject,
      resource,
      (parts, list, other, who, another, what) => {
        const [a, b] = [compile(parts, list), compile(parts, other)]
        const { hash: hashA, ...tableA } = a.view(who, what)
        const { hash: hashB, ...tableB } = b.view(another, what)
        expect(hashA === hashB).toBe(JSON.stringify(tableA) === JSON.stringify(tableB))
        if (a.subjectHash(who) === b.subjectHash(another)) expect(hashA).toBe(hashB)
      },
    ),
  )
})

it('no subject and no resource make a decision fail, and what a document says survives being written', () => {
  const text = fc.string({ unit: 'binary' })
  const anySubject = fc.record({ user: text, roles: fc.array(text), groups: fc.array(text) })
  const anyResource: fc.Arbitrary<Resource> = fc.record({
    source: fc.constantFrom('runtime', 'mcp' as const),
    runtime: text,
    worker: text,
    profile: fc.option(text),
  })
  check(
    fc.property(frame, statements, anySubject, anyResource, (parts, list, who, what) => {
      const document: PolicyDocument = {
        version: 1,
        ...parts,
        statements: list.map((one, n) => ({ ...one, id: `s${n}` })),
      }
      const policy = compilePolicy(document)
      const again = compilePolicy(parsePolicy(JSON.stringify(document), 'policy.json').document)
      expect(again.hash).toBe(policy.hash)
      expect(again.view(who, what)).toEqual(policy.view(who, what))
    }),
    200,
  )
})
