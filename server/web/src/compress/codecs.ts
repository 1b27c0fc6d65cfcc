// The code of a picture and the picture of a code, computed by the server or by the model on this device. Both paint
// without a class.

import { call } from "../api/http";
import { bytesOf, type Model } from "../api/models";
import { fromBase64, toBase64 } from "../base/base64";
import type { WorkerPool } from "../device/worker_pool";
import { base64 } from "../pictures/files";
import { Picture } from "../pictures/picture";
import { CodeFile } from "./code_file";

export const ON_DEVICE = "device"; // in a link: the code is one that browsers make

export interface Painted {
  picture: Picture;
  bits: number[]; // of each byte
}

export interface Codec {
  encode(picture: Picture): Promise<Uint8Array>;
  /** What links say of the model that made a code: its weights, or that it was a browser's. */
  weights(): Promise<string>;
  /** Paints a code, of a picture or not. */
  decode(code: Uint8Array): Promise<Painted>;
  /** The file of a code, once a picture has been encoded or a code painted; undefined where there are none. */
  fileOf(code: Uint8Array): Uint8Array | undefined;
}

export class ServerCodec implements Codec {
  private file: CodeFile | undefined; // of the last picture

  constructor(private readonly model: Model) {}

  async encode(picture: Picture): Promise<Uint8Array> {
    const answer = await this.ask("codes", { image: [await base64(picture.canvas)] });
    this.file = CodeFile.read(fromBase64((await answer.json()).data[0].code));
    return this.file.code;
  }

  /** Without a picture, the server encodes a black one, whose file has all but the code. */
  async weights(): Promise<string> {
    if (!this.file) await this.encode(Picture.of(this.model, new Uint8Array(bytesOf(this.model))));
    return this.file!.weights;
  }

  fileOf(code: Uint8Array): Uint8Array {
    return this.file!.withCode(code);
  }

  async decode(code: Uint8Array): Promise<Painted> {
    await this.weights();
    const fields = { code: [toBase64(this.fileOf(code))], unchecked: true };
    const array = new Uint8Array(await (await this.ask("decodings", fields, "application/x-npy")).arrayBuffer());
    const { height, width, channels } = this.model;
    const picture = Picture.of(this.model, array.subarray(array.length - height * width * channels));
    const image = await base64(picture.canvas);
    const answer = await this.ask("likelihoods", { image: [image], per_pixel: true });
    return { picture, bits: (await answer.json()).data[0].per_pixel.flat(2) };
  }

  private ask(route: string, fields: object, accept?: string): Promise<Response> {
    return call(`v1/images/${route}`, { model: this.model.id, ...fields }, accept);
  }
}

export class DeviceCodec implements Codec {
  constructor(
    private readonly model: Model,
    private readonly pool: WorkerPool,
  ) {}

  async encode({ bytes }: Picture): Promise<Uint8Array> {
    return (await this.pool.code({ type: "encode", bytes })).code;
  }

  async weights(): Promise<string> {
    return ON_DEVICE;
  }

  fileOf(): undefined {}

  async decode(code: Uint8Array): Promise<Painted> {
    const { bytes, bits } = await this.pool.code({ type: "decode", code });
    return { picture: Picture.of(this.model, bytes), bits };
  }
}
