// What answers in place of a server, on a page that has none.

import type { JobListener, JobRequest } from "./job";

export interface LocalServer {
  /** As callOnce of http.ts. */
  answer(path: string, body: unknown): Promise<Response>;
  /** As runJob of websocket.ts. */
  run(request: JobRequest, listener: JobListener, signal: AbortSignal): Promise<boolean>;
}

export let local: LocalServer | undefined;

export function setLocal(server: LocalServer): void {
  local = server;
}
