// The code of a picture and the picture of a code, computed by the server or by the model on this device. Both paint
// without a class.

import { call } from "../api/http";
import { bytesOf, type Model } from "../api/models";
import { fromBase64, toBase64 } from "../base/base64";
import type { WorkerPool } from "../device/worker_pool";
import { base64 } from "../pictures/files";
import { Picture } from "../pictures/picture";
import { CodeFile } from "./code_file";

export interface Painted {
  picture: Picture;
  bits: number[]; // of each byte
}

export interface Codec {
  encode(picture: Picture): Promise<Uint8Array>;
  /** What links say of the weights that made a code, and how they are computed with. */
  weights(): Promise<string>;
  /** Paints a code, of a picture or not. */
  decode(code: Uint8Array): Promise<Painted>;
  /** The file of a code, once a picture has been encoded or a code painted. */
  fileOf(code: Uint8Array): Uint8Array;
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
  private picture: Picture; // the last one; until there is one, black

  constructor(
    private readonly model: Model,
    private readonly pool: WorkerPool,
  ) {
    this.picture = new Picture(model);
  }

  async encode(picture: Picture): Promise<Uint8Array> {
    this.picture = picture;
    return (await this.pool.code({ type: "encode", bytes: picture.bytes })).code;
  }

  async weights(): Promise<string> {
    return this.file(new Uint8Array()).weights;
  }

  fileOf(code: Uint8Array): Uint8Array {
    return this.file(code).withCode(code);
  }

  private file(code: Uint8Array): CodeFile {
    const { coding, precision } = this.pool.model;
    return CodeFile.of(this.picture, coding, precision, code);
  }

  async decode(code: Uint8Array): Promise<Painted> {
    const { bytes, bits } = await this.pool.code({ type: "decode", code });
    return { picture: Picture.of(this.model, bytes), bits };
  }
}
