// One worker: opens an exported model once, then paints one job after another and tells what it has painted.

import { env } from "onnxruntime-web/wasm";
import { Model, Painting, type Job } from "./painter";

export type Order = { type: "open"; runtime: ArrayBuffer; model: Uint8Array } | ({ type: "paint" } & Job) | { type: "stop" };
export type Told =
  | { type: "opened" }
  | { type: "painted"; from: number; bytes: Uint8Array } // of each image those from `from` on, image after image
  | { type: "ended" }
  | { type: "failed"; message: string };

const TELL_EVERY = 30; // milliseconds
let model: Model;
let stopped = false;

self.onmessage = ({ data: order }: MessageEvent<Order>) => {
  if (order.type === "stop") stopped = true;
  else follow(order).catch((error) => tell({ type: "failed", message: String(error.message ?? error) }));
};

async function follow(order: Exclude<Order, { type: "stop" }>): Promise<void> {
  if (order.type === "open") {
    env.wasm.numThreads = 1; // more need an isolated page; there are several workers instead
    env.wasm.wasmBinary = order.runtime;
    model = await Model.open(order.model);
    return tell({ type: "opened" });
  }
  await paint(order);
  tell({ type: "ended" });
}

async function paint(job: Job): Promise<void> {
  stopped = false;
  const painting = new Painting(model, job);
  while (!painting.isDone && !stopped) {
    const from = painting.position;
    const until = performance.now() + TELL_EVERY;
    while (!painting.isDone && performance.now() < until) await painting.step();
    tell({ type: "painted", from, bytes: painting.since(from) });
    await breath();
  }
}

/** Lets messages in; a timer would hold the painting up by milliseconds. */
function breath(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => resolve();
    port2.postMessage(null);
  });
}

function tell(told: Told): void {
  self.postMessage(told);
}
