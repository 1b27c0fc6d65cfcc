// What POST /v1/images/classifications answers of a picture, as far as this page reads it, made in this browser.

import type { ClassifiedImage } from "../viewer/what_is_it";
import type { WorkerPool } from "./worker_pool";

export async function classification(pool: WorkerPool, names: string[], bytes: Uint8Array): Promise<ClassifiedImage> {
  const { probabilities, best, typical, tail } = await pool.classify(bytes);
  const posterior = Object.fromEntries(names.map((name, label) => [name, probabilities[label]!]));
  return { class: best === null ? null : names[best]!, posterior, typical, tail_probability: tail };
}
