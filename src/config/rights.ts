/**
 * Administrative rights. They are given to roles here and not in the policy, so that nobody can lock
 * themselves in, or out, from the policy's editor.
 */
export const RIGHTS = [
  'policy:read',
  'policy:write',
  'policy:activate',
  'raw:preview',
  'unscrubbed',
  'audit:read',
  'connections:revoke',
  'metrics:read',
  'journal:purge',
] as const
export type Right = (typeof RIGHTS)[number]
