// The models of the server.

import { say, withdraw } from "../look/notice";
import { Refusal, Unreachable } from "./errors";
import { call } from "./http";
import { backOff, wait } from "./wait";

export interface Model {
  id: string;
  height: number;
  width: number;
  channels: number;
  layers: number;
  heads: number;
  state: "loading" | "ready" | "failed";
  failure: string | null;
  parameters: number | null; // these two are known once it has loaded
  state_bytes_per_image: number | null;
  bits_per_dim: number | null;
}

/** Every model, the default first; waits for as long as one is loading or the server is away. */
export async function allModels(): Promise<Model[]> {
  for (let failures = 1; ; failures++) {
    try {
      const { data }: { data: Model[] } = await (await call("v1/models")).json();
      const loading = data.find(({ state }) => state === "loading");
      withdraw();
      if (!loading) return data;
      say(`${loading.id} is loading.`);
      await wait(1);
    } catch (error) {
      const passing = error instanceof Unreachable || (error instanceof Refusal && error.status === 503);
      if (!passing) throw error;
      say(`${error.message} Trying again.`);
      await wait((error instanceof Refusal && error.retryAfter) || backOff(failures));
    }
  }
}

export const bytesOf = (model: Model): number => model.height * model.width * model.channels;
