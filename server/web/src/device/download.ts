// Downloads what painting in the browser needs: the kernel and the model's file.

import kernelFile from "../../../../kernels/cpu/wasm/step.wasm?url";
import { request, retried, Unreachable } from "../api/http";

const modelPath = (model: string) => `v1/models/${encodeURIComponent(model)}/weights`;

/** The size of the model's file in bytes, beside which the kernel is small. A refusal of its head has no body that says
 * why: the file itself is asked for then, whose refusal has. */
export const downloadSize = (model: string): Promise<number> =>
  retried(async () => {
    const path = modelPath(model);
    try {
      const { headers } = await request(path, { method: "HEAD" });
      return Number(headers.get("content-length"));
    } catch (error) {
      await (await request(path)).body?.cancel();
      throw error;
    }
  });

/** Returns both files; `progress` gets the number of bytes of the model so far. Throws an AbortError if `signal` is
 * aborted. */
export const download = (model: string, signal: AbortSignal, progress: (bytes: number) => void): Promise<Files> =>
  retried(() => downloadOnce(model, signal, progress), signal);

async function downloadOnce(model: string, signal: AbortSignal, progress: (bytes: number) => void): Promise<Files> {
  let bytes = 0;
  const count = (chunk: Chunk, controller: TransformStreamDefaultController<Chunk>) => {
    progress((bytes += chunk.length));
    controller.enqueue(chunk);
  };
  const open = async (path: string) => (await request(path, { signal })).body!;
  const [kernel, file] = await Promise.all([
    open(kernelFile).then(readAll),
    open(modelPath(model)).then((body) => readAll(body.pipeThrough(new TransformStream({ transform: count })))),
  ]).catch((error) => {
    // a stream that ends too early, which the browser reports in words of its own
    throw error instanceof TypeError ? new Unreachable() : error;
  });
  return { kernel, model: file };
}

interface Files {
  kernel: ArrayBuffer;
  model: ArrayBuffer;
}

type Chunk = Uint8Array<ArrayBuffer>;

const readAll = (stream: ReadableStream<Chunk>): Promise<ArrayBuffer> => new Response(stream).arrayBuffer();
