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
  parameters: number;
  bits_per_dim: number | null;
  state_bytes_per_image: number;
}

/** Every model, the default first; waits for as long as the server loads or is away. */
export async function allModels(): Promise<Model[]> {
  for (let failures = 1; ; failures++) {
    try {
      const answer: { data: Model[] } = await (await call("v1/models")).json();
      withdraw();
      return answer.data;
    } catch (error) {
      const passing = error instanceof Unreachable || (error instanceof Refusal && error.status === 503);
      if (!passing) throw error;
      say(`${error.message} Trying again.`);
      await wait((error instanceof Refusal && error.retryAfter) || backOff(failures));
    }
  }
}

export const bytesOf = (model: Model): number => model.height * model.width * model.channels;
