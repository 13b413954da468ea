import { inspect } from 'node:util'

const HIDDEN = '[secret]'

/**
 * A value that must not come out by accident: whatever prints it prints `[secret]`. `reveal` is the one way
 * in, so that the places which use secrets can be found by its name.
 */
export class Secret {
  readonly #value: string

  constructor(value: string) {
    this.#value = value
  }

  reveal(): string {
    return this.#value
  }

  toString(): string {
    return HIDDEN
  }

  toJSON(): string {
    return HIDDEN
  }

  [Symbol.toPrimitive](): string {
    return HIDDEN
  }

  [inspect.custom](): string {
    return HIDDEN
  }
}
