import { describe, expect, it } from 'vitest'
import { DocumentError } from '../../lib/document-error.ts'
import { documentHash, EMPTY_POLICY } from './document.ts'
import { parsePolicy } from './parse.ts'

const parse = (text: string) => parsePolicy(text, 'policy.yaml')

/** `line:column path: message` of everything wrong. */
const wrong = (text: string): string[] => {
  try {
    parse(text)
  } catch (error) {
    if (!(error instanceof DocumentError)) throw error
    expect(error.code).toBe('policy_invalid')
    expect(error.issues.every(issue => issue.code === 'policy_invalid')).toBe(true)
    return error.issues.map(issue => `${issue.line}:${issue.column} ${issue.path}: ${issue.message}`)
  }
  return []
}

const FULL = `version: 1
subjects:
  operators: { any: [ { role: operator }, { user: ana }, { group: team/a } ] }
resources:
  prod: { runtime: [rt-prod], source: runtime }
  builders: { runtime: rt-prod, worker: [w1, "*"], profile: [builder] }
statements:
  - id: watch
    who: operators
    on: prod
    grant:
      observe: true
      classes: { user_input: show, thinking: mask, system: drop }
      commands: [input.user, interrupt]
    note: day-to-day watching
  - { id: nobody, who: "*", on: "*", cap: { observe: false, classes: { system: drop }, commands: [stop] } }
`

describe('a policy document', () => {
  it('is read whole, a name alone standing for a list of one', () => {
    expect(parse(FULL).document).toEqual({
      version: 1,
      subjects: { operators: { any: [{ role: 'operator' }, { user: 'ana' }, { group: 'team/a' }] } },
      resources: {
        prod: { runtime: ['rt-prod'], source: ['runtime'] },
        builders: { runtime: ['rt-prod'], worker: ['w1', '*'], profile: ['builder'] },
      },
      statements: [
        {
          id: 'watch',
          who: 'operators',
          on: 'prod',
          grant: {
            observe: true,
            classes: { user_input: 'show', thinking: 'mask', system: 'drop' },
            commands: ['input.user', 'interrupt'],
          },
          note: 'day-to-day watching',
        },
        {
          id: 'nobody',
          who: '*',
          on: '*',
          cap: { observe: false, classes: { system: 'drop' }, commands: ['stop'] },
        },
      ],
    })
  })

  it('is at its shortest a version', () => {
    expect(parse('version: 1').document).toEqual(EMPTY_POLICY)
    expect(parse('{"version":1}').document).toEqual(EMPTY_POLICY)
  })

  it('has a hash of what it says: form, comments and order of keys make no difference, content does', () => {
    const hash = (text: string) => documentHash(parse(text).document)
    const json = JSON.stringify(parse(FULL).document)
    expect(hash(json)).toBe(hash(FULL))
    expect(hash(`# a comment\n${FULL}`)).toBe(hash(FULL))
    expect(hash('resources: { a: { worker: [x], runtime: [y] } }\nversion: 1')).toBe(
      hash('version: 1\nresources: { a: { runtime: [y], worker: [x] } }'),
    )
    expect(hash(FULL.replace('thinking: mask', 'thinking: show'))).not.toBe(hash(FULL))
    expect(hash(FULL)).toMatch(/^[0-9a-f]{64}$/)
  })
})

describe('a policy document is refused, with its line, for', () => {
  const statement = (rest: string) => `version: 1
resources: { prod: { runtime: [a] } }
statements:
  - id: s
    who: "*"
    on: prod
    ${rest}
`

  it.each([
    ['nothing in it', '', '1:1 : empty; expected a mapping'],
    ['no version', 'subjects: {}', '1:1 version: expected 1'],
    ['another version', 'version: 2', '1:10 version: expected 1'],
    ['an unknown key', 'version: 1\nstatement: []', '2:1 statement: unknown key'],
    [
      'a subject without matchers',
      'version: 1\nsubjects: { a: { any: [] } }',
      '2:23 subjects.a.any: expected at least one',
    ],
    [
      'a matcher of two kinds',
      'version: 1\nsubjects: { a: { any: [{ user: x, role: y }] } }',
      '2:24 subjects.a.any[0]: expected exactly one of user, role, group',
    ],
    [
      'a matcher of no kind',
      'version: 1\nsubjects: { a: { any: [{}] } }',
      '2:24 subjects.a.any[0]: expected exactly one of user, role, group',
    ],
    [
      'a matcher of an unknown kind',
      'version: 1\nsubjects: { a: { any: [{ user: y, rule: x }] } }',
      '2:35 subjects.a.any[0].rule: unknown key',
    ],
    [
      'a subject named *',
      'version: 1\nsubjects: { "*": { any: [{ user: x }] } }',
      '2:13 subjects["*"]: expected a name of at most 128 of A-Z a-z 0-9 _ . : -, that begins with a letter or digit',
    ],
    [
      'a resource of no key',
      'version: 1\nresources: { a: {} }',
      '2:17 resources.a: expected at least one of source, runtime, worker, profile; `on: "*"` means everything',
    ],
    [
      'a resource of no name',
      'version: 1\nresources: { a: { runtime: [] } }',
      '2:28 resources.a.runtime: expected at least one name',
    ],
    [
      'an unknown source',
      'version: 1\nresources: { a: { source: [web] } }',
      '2:28 resources.a.source[0]: expected runtime, mcp or *',
    ],
    [
      'a number for a name',
      'version: 1\nresources: { a: { worker: [1] } }',
      '2:28 resources.a.worker[0]: expected a text',
    ],
    [
      'a resource key of no kind',
      'version: 1\nresources: { a: { runtime: x, tool: [x] } }',
      '2:31 resources.a.tool: unknown key',
    ],
    ['a statement without effect', statement('note: x'), '4:5 statements[0]: expected grant or cap'],
    ['an effect that is empty', statement('grant:'), '7:11 statements[0].grant: empty; expected a mapping'],
    [
      'classes that are empty',
      statement('grant: { classes: }'),
      '7:23 statements[0].grant.classes: empty; expected a mapping',
    ],
    [
      'classes as a list',
      statement('grant: { classes: [] }'),
      '7:23 statements[0].grant.classes: expected a mapping',
    ],
    [
      'an unknown class',
      statement('grant: { classes: { thoughts: show } }'),
      '7:25 statements[0].grant.classes.thoughts: unknown key',
    ],
    [
      'an unknown level',
      statement('grant: { classes: { thinking: all } }'),
      '7:35 statements[0].grant.classes.thinking: expected show, mask or drop',
    ],
    [
      'truncate',
      statement('grant: { classes: { thinking: { truncate: 200 } } }'),
      '7:35 statements[0].grant.classes.thinking: truncate is not yet supported in this version',
    ],
    [
      'tools',
      statement('tools: [bash]\n    cap: { classes: { tool_args: mask } }'),
      '7:12 statements[0].tools: tools is not yet supported in this version',
    ],
    [
      'shadow mode',
      statement('mode: shadow\n    cap: {}'),
      '7:11 statements[0].mode: mode is not yet supported in this version',
    ],
    ['scrub', 'version: 1\nscrub: { custom: [] }', '2:8 scrub: scrub is not yet supported in this version'],
    ['tests', 'version: 1\ntests: []', '2:8 tests: tests is not yet supported in this version'],
    [
      'a cap that would give',
      statement('cap: { observe: true }'),
      '7:21 statements[0].cap.observe: expected false: a cap of observe takes it away',
    ],
    [
      'an unknown command',
      statement('grant: { commands: [input] }'),
      '7:25 statements[0].grant.commands[0]: unknown command: expected one of input.user, input.segments, input.system, input.notify, compact, rewind_targets, register_peer, completions, interrupt, pause, resume, cancel, stop, start, restart',
    ],
    ['an unknown effect', statement('grant: { class: {} }'), '7:14 statements[0].grant.class: unknown key'],
    [
      'a subject that does not exist',
      statement('cap: {}').replace('"*"', 'nobody'),
      '5:10 statements[0].who: no such name in subjects',
    ],
    [
      'a resource that does not exist',
      statement('cap: {}').replace('on: prod', 'on: toString'),
      '6:9 statements[0].on: no such name in resources',
    ],
    [
      'an id given twice',
      `${statement('cap: {}')}  - { id: s, who: "*", on: prod, cap: {} }\n`,
      '8:11 statements[1].id: the same as in statements[0]',
    ],
    ['a key given twice', 'version: 1\nresources: {}\nversion: 1', '3:1 version: the same key twice'],
  ])('%s', (_name, text, issue) => {
    expect(wrong(text)).toEqual([issue])
  })

  it('several things, all told at once', () => {
    const found = wrong(`version: 3
subjects: { a: { any: [] } }
statements:
  - { id: x, who: b, on: c, grant: { classes: { thinking: all } } }
  - { id: x, who: "*", on: "*" }
`)
    expect(found.map(issue => issue.split(': ')[0])).toEqual([
      '1:10 version',
      '2:23 subjects.a.any',
      '4:19 statements[0].who',
      '4:26 statements[0].on',
      '4:59 statements[0].grant.classes.thinking',
      '5:5 statements[1]',
      '5:11 statements[1].id',
    ])
  })
})

it('a name with a star in it is valid, and told of as likely a mistake', () => {
  const { findings } = parse(`version: 1
subjects: { a: { any: [{ user: "*" }, { role: "op*" }] } }
resources: { r: { runtime: "rt*", worker: ["*", w] } }
`)
  expect(findings.map(({ line, path }) => [line, path])).toEqual([
    [2, 'subjects.a.any[1].role'],
    [3, 'resources.r.runtime[0]'],
  ])
})

it('a document cut at any character is read or refused, and never anything else', () => {
  for (let end = 0; end < FULL.length; end += 1) {
    const text = FULL.slice(0, end)
    try {
      expect(parse(text).document.version).toBe(1)
    } catch (error) {
      expect(error).toBeInstanceOf(DocumentError)
      expect(error).toMatchObject({ code: 'policy_invalid' })
    }
  }
  const json = JSON.stringify(parse(FULL).document)
  for (let end = 0; end < json.length; end += 1)
    expect(() => parse(json.slice(0, end)), `${end}`).toThrow(DocumentError)
})
