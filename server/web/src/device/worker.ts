// A web worker: loads an exported model once, then runs one command after another: it paints images and posts the bytes as
// it goes, or writes or reads the code of a picture.

import { env } from "onnxruntime-web/wasm";
import { CodeChooser } from "./codec/chooser";
import { OnnxModel, PaintLoop, Sampler, type DeviceJob } from "./painting/painter";

export type Command =
  | { type: "open"; runtime: ArrayBuffer; model: Uint8Array }
  | ({ type: "paint" } & DeviceJob)
  | { type: "encode"; bytes: Uint8Array } // of a picture
  | { type: "decode"; code: Uint8Array }
  | { type: "stop" };
export type Reply =
  | ({ type: "painted" } & PaintedPart)
  | ({ type: "coded" } & CodedPicture)
  | { type: "ended" }
  | { type: "failed"; message: string };

/** Painted bytes of the images of a job. */
export interface PaintedPart {
  from: number;
  bytes: Uint8Array; // of each image those from position `from` on, image after image
  bits: Float64Array; // of each image, of all bytes so far, under the model at temperature 1
}

/** A picture and its code under the model without a class. */
export interface CodedPicture {
  bytes: Uint8Array;
  bits: number[]; // of each byte
  code: Uint8Array;
}

const POST_EVERY = 30; // milliseconds
let model: OnnxModel;
let isStopped = false;

self.onmessage = ({ data: command }: MessageEvent<Command>) => {
  if (command.type === "stop") isStopped = true;
  else run(command).catch((error) => post({ type: "failed", message: String(error.message ?? error) }));
};

async function run(command: Exclude<Command, { type: "stop" }>): Promise<void> {
  if (command.type === "open") {
    env.wasm.numThreads = 1; // threads need cross-origin isolation; the pool has several workers instead
    env.wasm.wasmBinary = command.runtime;
    model = await OnnxModel.open(command.model);
  } else if (command.type === "paint") {
    await paint(command);
  } else {
    const { config } = model;
    if (command.type === "encode") await code(CodeChooser.ofPicture(config, command.bytes));
    else await code(CodeChooser.ofCode(config, command.code));
  }
  post({ type: "ended" });
}

async function paint(job: DeviceJob): Promise<void> {
  isStopped = false;
  const sampler = new Sampler(model, job);
  const loop = new PaintLoop(model, sampler, sampler.labels);
  while (!loop.isDone && !isStopped) {
    const from = loop.position;
    const until = performance.now() + POST_EVERY;
    while (!loop.isDone && performance.now() < until) await loop.step();
    post({ type: "painted", from, bytes: loop.bytesFrom(from), bits: loop.bits });
    await receiveMessages();
  }
}

async function code(chooser: CodeChooser): Promise<void> {
  const loop = new PaintLoop(model, chooser, new Int32Array(1));
  while (!loop.isDone) await loop.step();
  post({ type: "coded", bytes: loop.images, bits: chooser.bits, code: chooser.code });
}

/** Lets pending messages arrive; setTimeout would wait for milliseconds. */
function receiveMessages(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => resolve();
    port2.postMessage(null);
  });
}

function post(reply: Reply): void {
  self.postMessage(reply);
}
