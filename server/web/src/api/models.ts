// The models of the server, as GET /v1/models returns them.

import { clearNotice, showNotice } from "../base/notice";
import { call, wait } from "./http";

export interface Model {
  id: string;
  aliases: string[];
  height: number;
  width: number;
  channels: number;
  layers: number;
  heads: number;
  classes: string[]; // names; empty where the model has none
  max_guidance: number | null; // null where images cannot be guided
  has_class_head: boolean; // which images' candidates are compared by
  defaults: { guidance: number; temperature: number; best_of: number }; // of images painted from nothing
  state: "loading" | "ready" | "failed";
  failure: string | null;
  parameters: number | null; // this and the next are null until the model has loaded
  state_bytes_per_image: number | null;
  bits_per_dim: number | null;
  typical_bits_per_dim: [number, number] | null; // null where it is not known which pictures are outliers
  digest: string | null; // of what paints, and the version of it
  scanline: string;
}

/** Returns all models, the default first. Waits while one is loading or the server cannot be reached. */
export async function allModels(): Promise<Model[]> {
  for (;;) {
    const { data }: { data: Model[] } = await (await call("v1/models")).json();
    const loading = data.find(({ state }) => state === "loading");
    clearNotice();
    if (!loading) return data;
    showNotice(`Loading ${loading.id}.`);
    await wait(1);
  }
}

export const bytesOf = (model: Model): number => model.height * model.width * model.channels;
