// Answers in place of a server, by the model in the page: it paints, completes, reads classes and drawings, says what pixels cost,
// and opens its own files of codes. All else needs a server, and says so. Jobs run one after the other, each by all workers.

import kernelFile from "../../../../kernels/cpu/wasm/step.wasm?url";
import { ApiError } from "../api/http";
import { setLocal, type LocalServer } from "../api/local";
import type { Model } from "../api/models";
import type { JobListener, JobRequest } from "../api/job";
import { fromBase64 } from "../base/base64";
import { find } from "../base/elements";
import { CodeFile } from "../compress/code_file";
import { classification } from "../device/classification";
import { hold } from "../device/panel";
import { drawingOn } from "../device/reading/cleaning";
import { WorkerPool } from "../device/worker_pool";
import { labelsOf } from "../jobs/class_choice";
import { array } from "../pictures/files";
import { Picture } from "../pictures/picture";

const NEEDS_SERVER = "This page has no server, which this needs.";
const NO_CANDIDATES = "This page paints one candidate of each image: images that are chosen of several need a server.";
const OTHER_CODE = "This file of codes is damaged, of other weights than this page has, or of several pictures: scanline decompress opens it, or says why not.";

const SIZE = 8; // where in a file of codes its size begins, of which all bytes but the last are above 127
const [RED, GREEN, BLUE] = [19595, 38470, 7471]; // of grey, in 2^-16, as Pillow has them

const textOf = (id: string): string => document.getElementById(id)!.textContent!;

/** The kernel's URL is its content, in this page. */
async function openPool(): Promise<WorkerPool> {
  const kernel = await (await fetch(kernelFile)).arrayBuffer();
  return WorkerPool.open(kernel, fromBase64(textOf("offline-model")).buffer);
}

class PageServer implements LocalServer {
  private readonly model: Model = JSON.parse(textOf("offline-card"));
  private readonly opening = openPool();
  private last: Promise<unknown> = Promise.resolve(); // settled when all jobs have ended

  async answer(path: string, body: unknown): Promise<Response> {
    const pool = await this.opening;
    if (path === "v1/models") {
      hold(pool);
      return Response.json({ data: [{ ...this.model, digest: pool.model.digest }] });
    }
    if (path === "v1/images/classifications") {
      const bytes = Uint8Array.from(await this.bytesOf((body as { image: string }).image));
      return Response.json({ read_by: "head", data: [await classification(pool, this.model.classes, bytes)] });
    }
    if (path === "v1/images/decodings") return new Response(array([await this.decoded(pool, (body as { code: string[] }).code[0]!)]));
    if (path !== "v1/images/likelihoods") throw new ApiError(NEEDS_SERVER, 501);
    const images = [(body as { image: string | string[] }).image].flat();
    const data = await Promise.all(images.map((image) => this.scored(pool, image)));
    return Response.json({ typical_bits_per_dim: null, data });
  }

  async run(request: JobRequest, listener: JobListener, signal: AbortSignal): Promise<boolean> {
    if (Number(request["best_of"] ?? 1) > 1) {
      find("picky", HTMLSelectElement).value = "1"; // of a link
      throw new ApiError(NO_CANDIDATES, 501);
    }
    const ended = this.last.then(() => (signal.aborted ? true : this.paint(request, listener, signal)));
    this.last = ended.catch(() => {});
    return ended;
  }

  async drawingOn({ data, height, width }: ImageData): Promise<Uint8Array | undefined> {
    const { shape, reading } = (await this.opening).model;
    if (!reading?.cleaning) return undefined;
    const grey = Uint8Array.from({ length: height * width }, (_, pixel) => {
      const [red, green, blue] = data.subarray(4 * pixel);
      return (RED * red! + GREEN * green! + BLUE * blue! + 2 ** 15) >> 16;
    });
    return drawingOn(grey, { height, width }, shape, reading.cleaning);
  }

  /** The picture of a file of codes, which is the file that the picture has here. */
  private async decoded(pool: WorkerPool, base64: string): Promise<Picture> {
    const { coding, precision } = pool.model;
    const file = fromBase64(base64);
    const fileOf = (picture: Picture, code: Uint8Array) => CodeFile.of(picture, coding, precision, code).withCode(code);
    const beside = fileOf(new Picture(this.model), new Uint8Array(1)).length - 1;
    const code = file.slice(beside + file.subarray(SIZE).findIndex((byte) => byte < 128));
    const { bytes } = await pool.code({ type: "decode", code });
    const picture = Picture.of(this.model, bytes);
    if (String(fileOf(picture, code)) !== String(file)) throw new ApiError(OTHER_CODE, 400);
    return picture;
  }

  private async scored(pool: WorkerPool, image: string): Promise<object> {
    const { width, height, channels } = this.model;
    const bytes = Uint8Array.from(await this.bytesOf(image));
    const { bits } = await pool.code({ type: "encode", bytes });
    const pixels = Array.from({ length: width * height }, (_, pixel) => bits.slice(pixel * channels, (pixel + 1) * channels));
    return {
      bits_per_dim: bits.reduce((sum, each) => sum + each) / bits.length,
      typical: null,
      tail_probability: null,
      per_pixel: Array.from({ length: height }, (_, row) => pixels.slice(row * width, (row + 1) * width)),
    };
  }

  private async paint(request: JobRequest, listener: JobListener, signal: AbortSignal): Promise<boolean> {
    const pool = await this.opening;
    const { classes, height, width, channels } = this.model;
    const { seed, n, class: name, temperature = 1, guidance = 1, particles = 1 } = request as JobRequest & Asked;
    const labels = labelsOf(classes, { class: name, seed, n });
    const known = request.type === "complete" ? await this.known(request as unknown as Known) : undefined;
    const bytes = height * width * channels;
    const stop = () => pool.stop();
    signal.addEventListener("abort", stop);
    const job = { seed: BigInt(seed), first: 0, labels, temperature, guidance, particles, ...(known && { known }) };
    await pool.paint(job, ({ frames, figures, first }) => {
      for (const frame of frames) {
        listener.frame?.(frame);
        if (frame.first + frame.bytes.length < bytes) continue;
        const label = labels[frame.index]!;
        const { bits, ...evidence } = figures[frame.index - first]!;
        const ofClass = label ? classes[label - 1]! : null;
        listener.image?.(frame.index, { class: ofClass, bitsPerDim: bits / bytes, ...evidence });
      }
    });
    signal.removeEventListener("abort", stop);
    return signal.aborted;
  }

  /** The bytes of a completion that are known; -1 for others. */
  private async known({ image, keep_rows, mask }: Known): Promise<Int16Array> {
    const { width, channels } = this.model;
    const bytes = await this.bytesOf(image);
    const kept = mask === undefined ? undefined : await this.pixelsOf(mask);
    const isKnown = (pixel: number) => (kept ? kept[4 * pixel + 3]! > 0 : pixel < keep_rows! * width);
    return Int16Array.from(bytes, (byte, at) => (isKnown(Math.floor(at / channels)) ? byte : -1));
  }

  private async bytesOf(png: string): Promise<number[]> {
    const pixels = await this.pixelsOf(png);
    const ofPixel = (at: number) => at % 4 < this.model.channels;
    return [...pixels].filter((_, at) => ofPixel(at));
  }

  /** The pixels of a PNG that this page has made, four bytes each. */
  private async pixelsOf(png: string): Promise<Uint8ClampedArray> {
    const { width, height } = this.model;
    const image = await createImageBitmap(new Blob([fromBase64(png)], { type: "image/png" }));
    const context = new OffscreenCanvas(width, height).getContext("2d")!;
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, width, height).data;
  }
}

interface Asked {
  n: number;
  class?: string | string[];
  temperature?: number;
  guidance?: number;
  particles?: number;
}

interface Known {
  image: string;
  keep_rows?: number;
  mask?: string;
}

// Fewer images, and particles of completions, than a server paints in a moment.
document.querySelector<HTMLInputElement>("#count")!.value = "8";
document.querySelector<HTMLInputElement>("#particles [value='1']")!.checked = true;
setLocal(new PageServer());
