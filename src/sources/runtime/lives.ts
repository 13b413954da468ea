/**
 * A worker's listed status is its life, not its activity: `running` from the first generation even when idle
 * or failed (R4), `idle`, `running` or `paused` from later ones (R49). A status that nobody knows is taken
 * for a life: a connection too many costs little, and one that is missing loses what is said.
 */
const OVER: ReadonlySet<string> = new Set(['stopped', 'cancelled'])

export const isAlive = (status: string): boolean => !OVER.has(status)
