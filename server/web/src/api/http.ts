// HTTP calls to the API: addresses, the API key, errors as exceptions, and the delay between attempts. A call that fails
// because the server is away, or loads its model, is made again until it is answered.

import { clearNotice, showNotice } from "../base/notice";
import { askForKey, keyHeaders } from "./key";
import { local } from "./local";

/** An error response of the API; `param` is the request field that it refers to, `retryAfter` is in seconds. */
export class ApiError extends Error {
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

/** Reads a body {"error": {...}}. A proxy may have sent something else, then the message names the status. */
export function readError(body: unknown, status: number | null = null, retryAfter: number | null = null): ApiError {
  const error = (body as { error?: { message?: unknown; param?: unknown; code?: unknown } } | null)?.error;
  const text = (value: unknown) => (typeof value === "string" ? value : null);
  const message = text(error?.message) ?? `The server answered with status ${status}.`;
  return new ApiError(message, status, text(error?.param), text(error?.code), retryAfter);
}

/** Whether the same call may succeed later. */
export const isTemporary = (error: unknown): boolean =>
  error instanceof Unreachable || (error instanceof ApiError && error.status === 503 && error.code !== "model_failed");

/** The API is served beside the page, whatever prefix a proxy has added. */
export const apiUrl = (path: string): URL => new URL(path, document.baseURI);

/** Waits, but not longer than until `signal` is aborted. */
export const wait = (seconds: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => resolve(), { once: true });
  });

/** Seconds to wait after `failures` failed attempts; randomised, so that clients do not retry in step. */
export const backOff = (failures: number): number =>
  Math.min(8, 0.5 * 2 ** Math.max(0, failures - 1)) * (0.75 + Math.random() / 2);

/** Returns the response to one request, sent with the API key. Throws ApiError or Unreachable. */
export async function request(path: string, options: RequestInit = {}): Promise<Response> {
  let response;
  try {
    response = await fetch(apiUrl(path), { ...options, headers: { ...options.headers, ...keyHeaders() } });
  } catch (error) {
    throw options.signal?.aborted ? error : new Unreachable();
  }
  if (response.ok) return response;
  const seconds = Number(response.headers.get("retry-after") ?? NaN);
  const body = await response.json().catch(() => null);
  throw readError(body, response.status, Number.isFinite(seconds) ? seconds : null);
}

/** Does `work` until it does not fail for a temporary reason; says so meanwhile. Throws what else it throws, and once
 * `signal` is aborted. */
export async function retried<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let failures = 1, said = ""; ; failures++) {
    try {
      const done = await work();
      if (said) clearNotice(said);
      return done;
    } catch (error) {
      if (!isTemporary(error)) throw error;
      said = `${(error as Error).message} Retrying.`;
      showNotice(said);
      await wait((error instanceof ApiError && error.retryAfter) || backOff(failures), signal);
      if (signal?.aborted) clearNotice(said);
      signal?.throwIfAborted();
    }
  }
}

/** Like `callOnce`, until the server answers. */
export const call = (path: string, body?: unknown, accept?: string): Promise<Response> =>
  retried(() => callOnce(path, body, accept));

/** Like `request`, with an optional JSON body to POST, a value or its text; asks the user for a key when the server
 * requires one. All of the response has arrived. `signal` cancels it. */
export async function callOnce(
  path: string,
  body?: unknown,
  accept = "application/json",
  signal: AbortSignal | null = null,
): Promise<Response> {
  if (local) return local.answer(path, body);
  const headers = { "content-type": "application/json", accept };
  const post = { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body), headers };
  for (;;) {
    try {
      const response = await request(path, { ...(body === undefined ? {} : post), signal });
      const whole = await response.arrayBuffer().catch(() => Promise.reject(new Unreachable()));
      return new Response(whole, response);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
      await askForKey(error.message);
    }
  }
}
