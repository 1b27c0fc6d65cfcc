// One HTTP call to the API: with the key, which is asked for where it is missing; errors become sentences.

import { address } from "./address";
import { refusalOf, Unreachable } from "./errors";
import { askForKey, keyHeaders } from "./key";

/** The answer to a call; throws Refusal or Unreachable. */
export async function call(path: string, body?: unknown): Promise<Response> {
  for (;;) {
    const answer = await send(path, body);
    if (answer.ok) return answer;
    const refusal = refusalOf(await answer.json().catch(() => null), answer.status, after(answer));
    if (answer.status !== 401) throw refusal;
    await askForKey(refusal.message);
  }
}

async function send(path: string, body: unknown): Promise<Response> {
  const json = { "content-type": "application/json" };
  const post = { method: "POST", body: JSON.stringify(body), headers: { ...json, ...keyHeaders() } };
  try {
    return await fetch(address(path), body === undefined ? { headers: keyHeaders() } : post);
  } catch {
    throw new Unreachable();
  }
}

function after(answer: Response): number | null {
  const seconds = Number(answer.headers.get("retry-after") ?? NaN);
  return Number.isFinite(seconds) ? seconds : null;
}
