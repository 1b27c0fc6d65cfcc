// What has to be downloaded before the device can paint: how large it is, and the download itself.

import { address } from "../api/address";
import { refusalOf, Unreachable } from "../api/errors";
import { keyHeaders } from "../api/key";
import runtimeFile from "virtual:runtime";

export interface Files {
  runtime: ArrayBuffer; // the wasm that runs models
  model: Uint8Array;
}

const modelPath = (model: string) => `v1/models/${encodeURIComponent(model)}/onnx`;

/** Bytes that a download will take. */
export async function size(model: string): Promise<number> {
  const heads = await Promise.all([runtimeFile, modelPath(model)].map((path) => get(path, { method: "HEAD" })));
  return heads.reduce((sum, { headers }) => sum + Number(headers.get("content-length")), 0);
}

/** Fetches both; tells how many bytes have come. Throws an AbortError when `signal` says so. */
export async function download(model: string, signal: AbortSignal, progress: (bytes: number) => void): Promise<Files> {
  let bytes = 0;
  const count = (chunk: Chunk, controller: TransformStreamDefaultController<Chunk>) => {
    progress((bytes += chunk.length));
    controller.enqueue(chunk);
  };
  const counted = async (path: string) =>
    (await get(path, { signal })).body!.pipeThrough(new TransformStream({ transform: count }));
  const [runtime, exported] = await Promise.all([
    counted(runtimeFile).then((packed) => whole(packed.pipeThrough(new DecompressionStream("gzip")))),
    counted(modelPath(model)).then(whole),
  ]);
  return { runtime, model: new Uint8Array(exported) };
}

type Chunk = Uint8Array<ArrayBuffer>;

const whole = (stream: ReadableStream<Chunk>): Promise<ArrayBuffer> => new Response(stream).arrayBuffer();

async function get(path: string, options: RequestInit): Promise<Response> {
  let answer;
  try {
    answer = await fetch(address(path), { ...options, headers: keyHeaders() });
  } catch (error) {
    throw options.signal?.aborted ? error : new Unreachable();
  }
  if (!answer.ok) throw refusalOf(await answer.json().catch(() => null), answer.status);
  return answer;
}
