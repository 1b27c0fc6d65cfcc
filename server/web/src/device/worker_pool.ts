// A pool of web workers that share the images of a job, one for each core but one.

import type { CodedPicture } from "./codec/codes";
import { compiled } from "./kernel/kernel";
import { readModelFile, type ModelFile } from "./kernel/model_file";
import type { DeviceJob } from "./painting/painter";
import type { Classified } from "./reading/classifier";
import { startWorker } from "./start_worker";
import type { Command, PaintedPart, Reply } from "./worker";

const MAX_WORKERS = 4; // each has a copy of the weights
const CLOSED = "The worker was stopped.";

type OnPainted = (part: PaintedPart) => void;

export class WorkerPool {
  private reader: PoolWorker | undefined; // of classes and codes, which wait for no picture that is painted

  private constructor(
    private readonly workers: PoolWorker[],
    private readonly kernel: WebAssembly.Module,
    readonly model: ModelFile,
  ) {}

  /** Starts the workers with a kernel and a model's file; throws if one of them fails to load these. */
  static async open(code: ArrayBuffer, file: ArrayBuffer): Promise<WorkerPool> {
    const kernel = await compiled(code);
    const model = readModelFile(file);
    const count = Math.max(1, Math.min(MAX_WORKERS, (navigator.hardwareConcurrency || 1) - 1));
    const pool = new WorkerPool(Array.from({ length: count }, () => new PoolWorker()), kernel, model);
    try {
      await Promise.all(pool.workers.map((worker) => worker.run({ type: "open", kernel, model })));
    } catch (error) {
      pool.close();
      throw error;
    }
    return pool;
  }

  /** Paints a job to its end, or until `stop`. */
  async paint(job: DeviceJob, onPainted: OnPainted): Promise<void> {
    const images = job.labels.length;
    const workers = this.workers.slice(0, images);
    const start = (i: number) => Math.floor((i * images) / workers.length);
    await Promise.all(
      workers.map((worker, i) => {
        const part = { ...job, first: job.first + start(i), labels: job.labels.slice(start(i), start(i + 1)) };
        return worker.run({ type: "paint", ...part }, (reply) => {
          if (reply.type === "painted") onPainted(reply);
        });
      }),
    );
  }

  /** Writes the code of a picture, or paints the picture that a code has. */
  async code(command: Command & { type: "encode" | "decode" }): Promise<CodedPicture> {
    const reply = await this.read(command);
    if (reply?.type !== "coded") throw new Error(CLOSED);
    return reply;
  }

  /** Says which class a picture shows, by the model's class head. */
  async classify(bytes: Uint8Array): Promise<Classified> {
    const reply = await this.read({ type: "classify", bytes });
    if (reply?.type !== "classified") throw new Error(CLOSED);
    return reply;
  }

  /** Returns the last thing that the reader posts. */
  private async read(command: Command): Promise<Reply | undefined> {
    let last: Reply | undefined;
    if (!this.reader) {
      this.reader = new PoolWorker();
      await this.reader.run({ type: "open", kernel: this.kernel, model: this.model });
    }
    await this.reader.run(command, (reply) => void (last = reply));
    return last;
  }

  stop(): void {
    for (const worker of this.workers) worker.stop();
  }

  close(): void {
    for (const worker of [...this.workers, ...(this.reader ? [this.reader] : [])]) worker.close();
  }
}

/** One worker and the command that it runs; others wait for its end. */
class PoolWorker {
  private readonly worker = startWorker();
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
