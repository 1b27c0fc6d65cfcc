// A pool of web workers that share the images of a job, one for each core but one.

import type { DeviceJob } from "./painter";
import type { Command, PaintedPart, Reply } from "./worker";

const MOST_WORKERS = 4; // each takes about 60 MB

/** Painted bytes of `images` images from index `first` on. */
export interface Painted extends PaintedPart {
  first: number;
  images: number;
}

export class WorkerPool {
  private constructor(private readonly workers: PoolWorker[]) {}

  /** Starts the workers with a runtime and a model; throws if one of them fails to load these. */
  static async open(runtime: ArrayBuffer, model: Uint8Array): Promise<WorkerPool> {
    const count = Math.max(1, Math.min(MOST_WORKERS, (navigator.hardwareConcurrency || 1) - 1));
    const pool = new WorkerPool(Array.from({ length: count }, () => new PoolWorker()));
    try {
      await Promise.all(pool.workers.map((worker) => worker.run({ type: "open", runtime, model })));
    } catch (error) {
      pool.close();
      throw error;
    }
    return pool;
  }

  /** Paints a job to its end, or until `stop`. */
  async paint(job: DeviceJob, onPainted: (painted: Painted) => void): Promise<void> {
    const workers = this.workers.slice(0, job.images);
    const start = (i: number) => Math.floor((i * job.images) / workers.length);
    await Promise.all(
      workers.map((worker, i) => {
        const part = { ...job, first: job.first + start(i), images: start(i + 1) - start(i) };
        return worker.run({ type: "paint", ...part }, (painted) => onPainted({ ...part, ...painted }));
      }),
    );
  }

  stop(): void {
    for (const worker of this.workers) worker.stop();
  }

  close(): void {
    for (const worker of this.workers) worker.close();
  }
}

/** One worker and the command that it runs. */
class PoolWorker {
  private readonly worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  private reject = (_: Error) => {};

  /** Resolves when the command has ended; throws the worker's error. */
  run(command: Command, onPainted: (part: PaintedPart) => void = () => {}): Promise<void> {
    this.worker.postMessage(command);
    return new Promise((resolve, reject) => {
      this.reject = reject;
      this.worker.onerror = () => reject(new Error("This browser cannot run the model."));
      this.worker.onmessage = ({ data: reply }: MessageEvent<Reply>) => {
        if (reply.type === "painted") onPainted(reply);
        else if (reply.type === "failed") reject(new Error(reply.message));
        else resolve();
      };
    });
  }

  stop(): void {
    this.worker.postMessage({ type: "stop" } satisfies Command);
  }

  close(): void {
    this.worker.terminate();
    this.reject(new Error("The worker was stopped."));
  }
}
