// Downloads what painting in the browser needs: the wasm of onnxruntime-web and the exported model.

import runtimeFile from "virtual:runtime";
import { request, retried, Unreachable } from "../api/http";

const modelPath = (model: string) => `v1/models/${encodeURIComponent(model)}/onnx`;

/** The size of both files in bytes. */
export async function downloadSize(model: string): Promise<number> {
  const heads = await Promise.all([runtimeFile, modelPath(model)].map((path) => retried(() => head(path))));
  return heads.reduce((sum, { headers }) => sum + Number(headers.get("content-length")), 0);
}

/** Asks for a file's head. A refusal has no body that says why: the file itself is asked for then, whose refusal has. */
async function head(path: string): Promise<Response> {
  try {
    return await request(path, { method: "HEAD" });
  } catch (error) {
    await (await request(path)).body?.cancel();
    throw error;
  }
}

/** Returns both files; `progress` gets the number of bytes so far. Throws an AbortError if `signal` is aborted. */
export const download = (model: string, signal: AbortSignal, progress: (bytes: number) => void): Promise<Files> =>
  retried(() => downloadOnce(model, signal, progress), signal);

async function downloadOnce(model: string, signal: AbortSignal, progress: (bytes: number) => void): Promise<Files> {
  let bytes = 0;
  const count = (chunk: Chunk, controller: TransformStreamDefaultController<Chunk>) => {
    progress((bytes += chunk.length));
    controller.enqueue(chunk);
  };
  const open = async (path: string) =>
    (await request(path, { signal })).body!.pipeThrough(new TransformStream({ transform: count }));
  const [runtime, exported] = await Promise.all([
    open(runtimeFile).then((packed) => readAll(packed.pipeThrough(new DecompressionStream("gzip")))),
    open(modelPath(model)).then(readAll),
  ]).catch((error) => {
    // a stream that ends too early, which the browser reports in words of its own
    throw error instanceof TypeError ? new Unreachable() : error;
  });
  return { runtime, model: new Uint8Array(exported) };
}

interface Files {
  runtime: ArrayBuffer;
  model: Uint8Array;
}

type Chunk = Uint8Array<ArrayBuffer>;

const readAll = (stream: ReadableStream<Chunk>): Promise<ArrayBuffer> => new Response(stream).arrayBuffer();
