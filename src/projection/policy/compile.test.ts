import { CLASSES } from '@shoji/web-contract'
import { describe, expect, it } from 'vitest'
import type { Resource, Subject } from '../view.ts'
import { closedPolicy, compilePolicy } from './compile.ts'
import { parsePolicy } from './parse.ts'

const compile = (text: string) => compilePolicy(parsePolicy(`version: 1\n${text}`, 'policy.yaml').document)

const subject = (user: string, roles: string[] = [], groups: string[] = []): Subject => ({
  user,
  roles,
  groups,
})
const resource = (runtime: string, worker = 'w', profile: string | null = 'p'): Resource => ({
  source: 'runtime',
  runtime,
  worker,
  profile,
})
const ALL_DROP = Object.fromEntries(CLASSES.map(name => [name, 'drop']))

/** A statement that grants sight of thinking. */
const watch = (who: string, on: string) =>
  `{ id: g-${who.length}-${on.length}, who: "${who}", on: "${on}", grant: { observe: true, classes: { thinking: show } } }`

describe('closed by default', () => {
  const nothing = { observe: false, levels: ALL_DROP, commands: [] }

  it('the shortest document, and no document, show nothing to anyone', () => {
    expect(compile('').view(subject('a', ['admin']), resource('r'))).toMatchObject(nothing)
    expect(closedPolicy().view(subject('a'), resource('r'))).toMatchObject(nothing)
    expect(closedPolicy().hash).toBe(compile('').hash)
  })

  it.each([
    ['empty', 'classes: {}'],
    ['omitted', ''],
  ])('a grant whose classes are %s shows the stream and nothing in it', (_name, classes) => {
    const policy = compile(`statements: [{ id: a, who: "*", on: "*", grant: { observe: true, ${classes} } }]`)
    expect(policy.view(subject('a'), resource('r'))).toMatchObject({
      observe: true,
      levels: ALL_DROP,
      commands: [],
    })
  })

  it('classes without observe show nothing', () => {
    const policy = compile(
      'statements: [{ id: a, who: "*", on: "*", grant: { classes: { thinking: show } } }]',
    )
    expect(policy.view(subject('a'), resource('r'))).toMatchObject(nothing)
  })

  it('an empty list of commands grants none', () => {
    const policy = compile(
      'statements: [{ id: a, who: "*", on: "*", grant: { observe: true, commands: [] } }]',
    )
    expect(policy.view(subject('a'), resource('r')).commands).toEqual([])
  })
})

describe('grants join, caps meet', () => {
  it('the effective level is the stricter of the most permissive grant and the strictest cap', () => {
    const policy = compile(`statements:
  - { id: g1, who: "*", on: "*", grant: { observe: true, classes: { thinking: mask, tool_args: show, usage: mask, system: show } } }
  - { id: g2, who: "*", on: "*", grant: { classes: { thinking: show, usage: drop } } }
  - { id: c1, who: "*", on: "*", cap: { classes: { tool_args: mask, usage: show, system: mask } } }
  - { id: c2, who: "*", on: "*", cap: { classes: { system: drop, unknown: show } } }
`)
    expect(policy.view(subject('a'), resource('r')).levels).toEqual({
      ...ALL_DROP,
      thinking: 'show',
      tool_args: 'mask',
      usage: 'mask',
      system: 'drop',
    })
  })

  it('observation needs a grant and no cap, and without it no class is shown', () => {
    const policy = compile(`subjects: { b: { any: [{ user: b }] } }
statements:
  - ${watch('*', '*')}
  - { id: c, who: b, on: "*", cap: { observe: false } }
`)
    expect(policy.view(subject('a'), resource('r'))).toMatchObject({
      observe: true,
      levels: { thinking: 'show' },
    })
    expect(policy.view(subject('b'), resource('r'))).toMatchObject({ observe: false, levels: ALL_DROP })
  })

  it('a command needs a grant and no cap', () => {
    const policy = compile(`statements:
  - { id: g, who: "*", on: "*", grant: { commands: [stop, interrupt, input.user] } }
  - { id: c, who: "*", on: "*", cap: { commands: [stop, pause] } }
`)
    expect(policy.view(subject('a'), resource('r')).commands).toEqual(['input.user', 'interrupt'])
  })

  it('a subject of many roles keeps every cap of each of them', () => {
    const policy = compile(`subjects:
  a: { any: [{ role: a }] }
  b: { any: [{ role: b }] }
  c: { any: [{ group: c }, { user: nobody }] }
statements:
  - { id: g, who: a, on: "*", grant: { observe: true, classes: { thinking: show, system: show, usage: show } } }
  - { id: ca, who: a, on: "*", cap: { classes: { thinking: drop } } }
  - { id: cb, who: b, on: "*", cap: { classes: { system: drop } } }
  - { id: cc, who: c, on: "*", cap: { classes: { usage: mask } } }
`)
    const levels = policy.view(subject('u', ['a', 'b'], ['c']), resource('r')).levels
    expect(levels).toMatchObject({ thinking: 'drop', system: 'drop', usage: 'mask' })
    expect(policy.view(subject('u', ['a']), resource('r')).levels).toMatchObject({
      system: 'show',
      usage: 'show',
    })
  })
})

describe('names', () => {
  const names = ['rtA', 'rtAB', 'rt*', 'rta', 'foo.bar', 'foo_bar', 'foo', '.*', 'constructor', '__proto__']

  it.each(['runtime', 'worker', 'profile'] as const)('a rule for one %s never covers another', key => {
    for (const name of names) {
      const policy = compile(
        `resources: { r: { ${key}: [${JSON.stringify(name)}] } }\nstatements: [${watch('*', 'r')}]`,
      )
      const seen = names.filter(
        other => policy.view(subject('u'), { ...resource('x'), [key]: other }).observe,
      )
      expect(seen).toEqual([name])
    }
  })

  it.each([
    ['user', (name: string) => subject(name)],
    ['role', (name: string) => subject('u', ['other', name])],
    ['group', (name: string) => subject('u', [], [name, 'other'])],
  ] as const)('a rule for one %s never covers another, nor one of another kind', (key, as) => {
    for (const name of names) {
      const policy = compile(
        `subjects: { s: { any: [{ ${key}: ${JSON.stringify(name)} }] } }\nstatements: [${watch('s', '*')}]`,
      )
      expect(names.filter(other => policy.view(as(other), resource('r')).observe)).toEqual([name])
    }
    const everyKind = [subject('x'), subject('u', ['x']), subject('u', [], ['x'])]
    const policy = compile(`subjects: { s: { any: [{ ${key}: x }] } }\nstatements: [${watch('s', '*')}]`)
    expect(everyKind.filter(one => policy.view(one, resource('r')).observe)).toHaveLength(1)
  })

  it('a star alone covers all, and each key of a resource must match', () => {
    const policy = compile(
      `resources: { r: { runtime: "*", worker: [w1, w2], source: runtime } }\nstatements: [${watch('*', 'r')}]`,
    )
    expect(policy.view(subject('u'), resource('any', 'w2')).observe).toBe(true)
    expect(policy.view(subject('u'), resource('any', 'w3')).observe).toBe(false)
    expect(policy.view(subject('u'), { ...resource('any', 'w1'), source: 'mcp' }).observe).toBe(false)
  })
})

describe('a profile that is not known', () => {
  it('matches every cap and no grant that is narrowed by profile', () => {
    const policy = compile(`resources:
  builders: { profile: [builder] }
  any: { profile: "*" }
  others: { runtime: [r2], profile: [builder] }
statements:
  - ${watch('*', 'any')}
  - { id: g2, who: "*", on: builders, grant: { classes: { usage: show } } }
  - { id: c, who: "*", on: builders, cap: { classes: { thinking: mask } } }
  - { id: c2, who: "*", on: others, cap: { observe: false } }
`)
    const levels = (profile: string | null) => policy.view(subject('u'), resource('r', 'w', profile)).levels
    expect(levels('builder')).toMatchObject({ thinking: 'mask', usage: 'show' })
    expect(levels('other')).toMatchObject({ thinking: 'show', usage: 'drop' })
    expect(levels(null)).toMatchObject({ thinking: 'mask', usage: 'drop' })
    expect(policy.view(subject('u'), resource('r2', 'w', null)).observe).toBe(false)
  })
})

describe('hashes', () => {
  const text = `subjects: { a: { any: [{ role: a }] }, b: { any: [{ role: b }] } }
resources: { r: { runtime: [r] } }
statements:
  - { id: one, who: a, on: r, grant: { observe: true, classes: { thinking: show } } }
  - { id: two, who: b, on: r, grant: { observe: true, classes: { thinking: show } }, note: the same }
  - { id: three, who: "*", on: "*", cap: { classes: { system: drop } } }
`
  const policy = compile(text)

  it('of views are equal exactly where the tables are, and equal views are one object', () => {
    const [a, b, none] = ['a', 'b', 'c'].map(role => policy.view(subject(role, [role]), resource('r')))
    expect(a).toBe(b)
    expect(none?.hash).not.toBe(a?.hash)
    expect(policy.view(subject('x', ['a']), resource('other'))).toBe(none)
    expect(
      compile(text.replace('thinking: show', 'thinking: mask')).view(subject('x', ['a']), resource('r')).hash,
    ).not.toBe(a?.hash)
    expect(a?.hash).toMatch(/^[0-9a-f]{32}$/)
  })

  it('of subjects are equal where the policy says the same of them, by whatever statement', () => {
    const hash = (...roles: string[]) => policy.subjectHash(subject('u', roles))
    expect(hash('a')).toBe(hash('b'))
    expect(hash('a', 'b')).toBe(hash('b', 'a'))
    expect(hash('a', 'b')).toBe(hash('a'))
    expect(hash('c')).not.toBe(hash('a'))
    expect(policy.subjectHash(subject('other', ['a']))).toBe(hash('a'))
  })

  it('of subjects survive renaming and a note, and change with any effect or resource', () => {
    const hash = (from: string, to: string) =>
      compile(text.replaceAll(from, to)).subjectHash(subject('u', ['a']))
    const same = policy.subjectHash(subject('u', ['a']))
    expect(hash('id: one', 'id: uno')).toBe(same)
    expect(hash('note: the same', 'note: other')).toBe(same)
    expect(hash('system: drop', 'system: mask')).not.toBe(same)
    expect(hash('runtime: [r]', 'runtime: [r2]')).not.toBe(same)
    expect(compile(text.replace('note: the same', 'note: other')).hash).not.toBe(policy.hash)
  })
})

it('keeps no more than it may, and decides the same when it has forgotten', () => {
  const text = `resources: { r: { worker: [w3] } }\nstatements: [${watch('*', 'r')}]`
  const tight = compilePolicy(parsePolicy(`version: 1\n${text}`, 'p').document, { subjects: 1, views: 1 })
  const ample = compile(text)
  for (let round = 0; round < 3; round += 1) {
    for (let n = 0; n < 5; n += 1) {
      const [who, what] = [subject(`u${n}`), resource('r', `w${n}`)]
      expect(tight.view(who, what)).toEqual(ample.view(who, what))
    }
  }
})
