/** The only place that looks at the process's environment. */
export type Environment = Readonly<Record<string, string | undefined>>

export const environment = (): Environment => process.env
