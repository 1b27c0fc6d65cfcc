// Several workers that share the images of a job, one for each core that can be spared.

import type { Order, Told } from "./worker";
import type { Job } from "./painter";

const MOST = 4; // each holds some 60 MB

/** Bytes that were painted: of `images` images from `first` on, those from `from` on, image after image. */
export interface Painted {
  first: number;
  images: number;
  from: number;
  bytes: Uint8Array;
}

export class Crew {
  private constructor(private readonly workers: Hand[]) {}

  /** Starts workers with a runtime and a model; throws where one cannot. */
  static async open(runtime: ArrayBuffer, model: Uint8Array): Promise<Crew> {
    const cores = navigator.hardwareConcurrency || 1;
    const crew = new Crew(Array.from({ length: Math.max(1, Math.min(MOST, cores - 1)) }, () => new Hand()));
    try {
      await Promise.all(crew.workers.map((hand) => hand.open(runtime, model)));
    } catch (error) {
      crew.close();
      throw error;
    }
    return crew;
  }

  /** Paints a job to its end, or to `stop`. */
  async paint(job: Job, painted: (painted: Painted) => void): Promise<void> {
    const hands = this.workers.slice(0, job.images);
    const share = (i: number) => Math.floor((i * job.images) / hands.length);
    await Promise.all(
      hands.map((hand, i) => {
        const part = { ...job, first: job.first + share(i), images: share(i + 1) - share(i) };
        return hand.paint(part, ({ from, bytes }) => painted({ ...part, from, bytes }));
      }),
    );
  }

  stop(): void {
    for (const hand of this.workers) hand.stop();
  }

  close(): void {
    for (const hand of this.workers) hand.close();
  }
}

type PaintedTold = Extract<Told, { type: "painted" }>;

/** One worker, and what is waited for from it. */
class Hand {
  private readonly worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  private giveUp = (_: Error) => {};

  async open(runtime: ArrayBuffer, model: Uint8Array): Promise<void> {
    await this.order({ type: "open", runtime, model });
  }

  async paint(job: Job, painted: (told: PaintedTold) => void): Promise<void> {
    await this.order({ type: "paint", ...job }, painted);
  }

  stop(): void {
    this.send({ type: "stop" });
  }

  close(): void {
    this.worker.terminate();
    this.giveUp(new Error("The painting was given up."));
  }

  /** Resolves when the order is carried out; throws what the worker says where it cannot be. */
  private order(order: Order, painted: (told: PaintedTold) => void = () => {}): Promise<void> {
    this.send(order);
    return new Promise((resolve, reject) => {
      this.giveUp = reject;
      this.worker.onerror = () => reject(new Error("This browser cannot run the model."));
      this.worker.onmessage = ({ data: told }: MessageEvent<Told>) => {
        if (told.type === "painted") painted(told);
        else if (told.type === "failed") reject(new Error(told.message));
        else resolve();
      };
    });
  }

  private send(order: Order): void {
    this.worker.postMessage(order);
  }
}
