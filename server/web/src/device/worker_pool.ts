// A pool of web workers that share the images of a job, one for each core but one.

import type { Frame } from "../api/websocket";
import type { DeviceJob } from "./painting/painter";
import type { CodedPicture, Command, Reply } from "./worker";

const MAX_WORKERS = 4; // each takes about 60 MB
const CLOSED = "The worker was stopped.";

/** Called with the bytes that were painted of some images, and the bits so far of these, the first of which is `first`. */
type OnPainted = (frames: Frame[], bits: Float64Array, first: number) => void;

export class WorkerPool {
  private constructor(private readonly workers: PoolWorker[]) {}

  /** Starts the workers with a runtime and a model; throws if one of them fails to load these. */
  static async open(runtime: ArrayBuffer, model: Uint8Array): Promise<WorkerPool> {
    const count = Math.max(1, Math.min(MAX_WORKERS, (navigator.hardwareConcurrency || 1) - 1));
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
  async paint(job: DeviceJob, onPainted: OnPainted): Promise<void> {
    const workers = this.workers.slice(0, job.images);
    const start = (i: number) => Math.floor((i * job.images) / workers.length);
    await Promise.all(
      workers.map((worker, i) => {
        const part = { ...job, first: job.first + start(i), images: start(i + 1) - start(i) };
        return worker.run({ type: "paint", ...part }, (reply) => {
          if (reply.type !== "painted") return;
          const { from, bytes, bits } = reply;
          const each = bytes.length / part.images;
          const frames = Array.from(bits, (_, at) => ({
            index: part.first + at,
            first: from,
            bytes: bytes.subarray(at * each, (at + 1) * each),
          }));
          onPainted(frames, bits, part.first);
        });
      }),
    );
  }

  /** Writes the code of a picture, or paints the picture that a code has. */
  async code(command: Command & { type: "encode" | "decode" }): Promise<CodedPicture> {
    let coded: CodedPicture | undefined;
    await this.workers[0]!.run(command, (reply) => {
      if (reply.type === "coded") coded = reply;
    });
    return coded!;
  }

  stop(): void {
    for (const worker of this.workers) worker.stop();
  }

  close(): void {
    for (const worker of this.workers) worker.close();
  }
}

/** One worker and the command that it runs; others wait for its end. */
class PoolWorker {
  private readonly worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  private last: Promise<unknown> = Promise.resolve(); // settled when all commands have ended
  private isClosed = false;
  private reject = (_: Error) => {};

  /** Resolves when the command has ended; throws the worker's error. `onReply` gets what it posts before. */
  run(command: Command, onReply: (reply: Reply) => void = () => {}): Promise<void> {
    const ended = this.last.then(() => this.start(command, onReply));
    this.last = ended.catch(() => {});
    return ended;
  }

  private start(command: Command, onReply: (reply: Reply) => void): Promise<void> {
    if (this.isClosed) throw new Error(CLOSED);
    this.worker.postMessage(command);
    return new Promise((resolve, reject) => {
      this.reject = reject;
      this.worker.onerror = () => reject(new Error("This browser cannot run the model."));
      this.worker.onmessage = ({ data: reply }: MessageEvent<Reply>) => {
        if (reply.type === "failed") reject(new Error(reply.message));
        else if (reply.type === "ended") resolve();
        else onReply(reply);
      };
    });
  }

  stop(): void {
    this.worker.postMessage({ type: "stop" } satisfies Command);
  }

  close(): void {
    this.isClosed = true;
    this.worker.terminate();
    this.reject(new Error(CLOSED));
  }
}
