// A web worker: loads a model once, then runs one command after another: it paints images and posts the bytes as it goes, or
// writes or reads the code of a picture, or says which class it shows.

import type { Frame } from "../api/job";
import { coded, decoded, type CodedPicture } from "./codec/codes";
import { Kernel } from "./kernel/kernel";
import type { ModelFile } from "./kernel/model_file";
import { Network } from "./kernel/network";
import { Classifier, type Classified } from "./reading/classifier";
import { Painter, slotsOf, type DeviceJob, type ImageFigures } from "./painting/painter";

export type Command =
  | { type: "open"; kernel: WebAssembly.Module; model: ModelFile }
  | ({ type: "paint" } & DeviceJob)
  | { type: "encode"; bytes: Uint8Array } // of a picture
  | { type: "decode"; code: Uint8Array }
  | { type: "classify"; bytes: Uint8Array }
  | { type: "stop" };
export type Reply =
  | ({ type: "painted" } & PaintedPart)
  | ({ type: "coded" } & CodedPicture)
  | ({ type: "classified" } & Classified)
  | { type: "ended" }
  | { type: "failed"; message: string };

/** What was painted of the images of a job. */
export interface PaintedPart {
  frames: Frame[];
  figures: ImageFigures[]; // of some images
  first: number; // the number of the first of these
}

const POST_EVERY = 30; // milliseconds
const MOST_SLOTS = 512; // at once: of some 100 kB each
const NO_MEMORY = "The kernel stopped: this browser has too little memory, or the model's file does not fit this page.";
let network: Network;
let classifier: Classifier | undefined; // of pictures that were read
let isStopped = false;

self.onmessage = ({ data: command }: MessageEvent<Command>) => {
  if (command.type === "stop") isStopped = true;
  else run(command).catch((error) => post({ type: "failed", message: sentenceOf(error) }));
};

const sentenceOf = (error: Error): string => (error instanceof WebAssembly.RuntimeError ? NO_MEMORY : error.message);

async function run(command: Exclude<Command, { type: "stop" }>): Promise<void> {
  if (command.type === "open") network = new Network(await Kernel.open(command.kernel), command.model);
  else if (command.type === "paint") await paint(command);
  else if (command.type === "encode") post({ type: "coded", ...coded(network, command.bytes) });
  else if (command.type === "classify") post({ type: "classified", ...(classifier ??= new Classifier(network)).read(command.bytes) });
  else post({ type: "coded", ...decoded(network, command.code) });
  post({ type: "ended" });
}

/** Paints as many images at once as slots may be. */
async function paint(job: DeviceJob): Promise<void> {
  isStopped = false;
  const images = Math.floor(MOST_SLOTS / slotsOf(job));
  for (let at = 0; at < job.labels.length && !isStopped; at += images) {
    const first = job.first + at;
    const painter = new Painter(network, { ...job, first, labels: job.labels.slice(at, at + images) });
    while (!painter.isDone && !isStopped) {
      const until = performance.now() + POST_EVERY;
      do painter.advance();
      while (performance.now() < until);
      post({ type: "painted", frames: painter.frames(), figures: painter.figures(), first });
      await receiveMessages();
    }
    painter.free();
  }
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
