// What answers in place of a server, on a page that has none.

import type { JobListener, JobRequest } from "./job";

export interface LocalServer {
  /** As callOnce of http.ts. */
  answer(path: string, body: unknown): Promise<Response>;
  /** As runJob of websocket.ts. */
  run(request: JobRequest, listener: JobListener, signal: AbortSignal): Promise<boolean>;
  /** The bytes of the drawing on a picture of any size; undefined where there is none, or the model has no such drawings. */
  drawingOn(picture: ImageData): Promise<Uint8Array | undefined>;
}

export let local: LocalServer | undefined;

export function setLocal(server: LocalServer): void {
  local = server;
}
