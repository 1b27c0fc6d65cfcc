// What the API refuses, in its own words.

/** A refusal: one sentence, the parameter that it is about, a code, and when to try again. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number | null,
    readonly param: string | null = null,
    readonly code: string | null = null,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }
}

/** The server cannot be reached. */
export class Unreachable extends Error {
  constructor() {
    super("The server cannot be reached.");
  }
}

/** The refusal in a body {"error": {...}}; something readable where it is none, as of a proxy. */
export function refusalOf(body: unknown, status: number | null = null, retryAfter: number | null = null): Refusal {
  const error = (body as { error?: { message?: unknown; param?: unknown; code?: unknown } } | null)?.error;
  const text = (value: unknown) => (typeof value === "string" ? value : null);
  const message = text(error?.message) ?? `The server answered with status ${status}.`;
  return new Refusal(message, status, text(error?.param), text(error?.code), retryAfter);
}
