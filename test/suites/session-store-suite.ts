/** What every `SessionStore` must do. `make` gives an empty store of these bounds. */
import { expect, it } from 'vitest'
import { SESSION_MS_MAX, type SessionLimits, type SessionStore } from '../../src/identity/sessions.ts'

export const sessionStoreSuite = (
  make: (limits: SessionLimits) => SessionStore | Promise<SessionStore>,
): void => {
  const NOW = 1_800_000_000_000
  const subject = (user: string) => ({ user, roles: ['r'], groups: ['g'] })
  const roomy = { sessions: 100, sessionsPerUser: 100 }

  it('gives back the subject, under an id that cannot be guessed', async () => {
    const store = await make(roomy)
    const [one, two] = [await store.create(subject('a'), NOW), await store.create(subject('a'), NOW)]
    expect(one.id).toMatch(/^[\w-]{43}$/)
    expect(one.id).not.toBe(two.id)
    expect(await store.lookup(one.id, NOW)).toEqual({ ...subject('a'), expiresAt: NOW + SESSION_MS_MAX })
    expect(await store.lookup(`${one.id.slice(1)}x`, NOW)).toBeUndefined()
  })

  it('ends a session with the credentials it was opened with, at that very moment', async () => {
    const store = await make(roomy)
    const { id, expiresAt } = await store.create({ ...subject('a'), expiresAt: NOW + 2_000 }, NOW)
    expect(expiresAt).toBe(NOW + 2_000)
    expect(await store.lookup(id, NOW + 1_999)).toMatchObject({ user: 'a', expiresAt: NOW + 2_000 })
    expect(await store.lookup(id, NOW + 2_000)).toBe('expired')
  })

  it('ends a session after twelve hours at the latest', async () => {
    const store = await make(roomy)
    const { id } = await store.create({ ...subject('a'), expiresAt: NOW + 2 * SESSION_MS_MAX }, NOW)
    expect(await store.lookup(id, NOW + SESSION_MS_MAX - 1)).toMatchObject({ user: 'a' })
    expect(await store.lookup(id, NOW + SESSION_MS_MAX)).toBe('expired')
  })

  it('forgets a session that was deleted, and minds no unknown id', async () => {
    const store = await make(roomy)
    const { id } = await store.create(subject('a'), NOW)
    await store.delete('unknown')
    await store.delete(id)
    await store.delete(id)
    expect(await store.lookup(id, NOW)).toBeUndefined()
  })

  it('drops the oldest session past its bound', async () => {
    const store = await make({ sessions: 2, sessionsPerUser: 2 })
    const ids: string[] = []
    for (const user of ['a', 'b', 'c']) ids.push((await store.create(subject(user), NOW)).id)
    const found = await Promise.all(ids.map(id => store.lookup(id, NOW)))
    expect(found.map(one => (typeof one === 'object' ? one.user : one))).toEqual([undefined, 'b', 'c'])
  })

  it('lets nobody push out the sessions of another', async () => {
    const store = await make({ sessions: 10, sessionsPerUser: 2 })
    const other = await store.create(subject('b'), NOW)
    const ids: string[] = []
    for (let n = 0; n < 20; n += 1) ids.push((await store.create(subject('a'), NOW)).id)
    expect(await store.lookup(other.id, NOW)).toMatchObject({ user: 'b' })
    const alive = await Promise.all(ids.map(id => store.lookup(id, NOW)))
    expect(alive.map(one => one !== undefined)).toEqual(ids.map((_, n) => n >= 18))
  })
}
