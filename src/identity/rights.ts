import type { AuthConfig } from '../config/config.ts'
import { RIGHTS, type Right } from '../config/rights.ts'
import type { Subject } from '../projection/view.ts'

/** The administrative rights of all roles of a subject together, in the order of the list. */
export const rightsOf = (rights: AuthConfig['rights'], subject: Subject): readonly Right[] => {
  const held = new Set(
    subject.roles.flatMap(role => (Object.hasOwn(rights, role) ? (rights[role] ?? []) : [])),
  )
  return RIGHTS.filter(right => held.has(right))
}
