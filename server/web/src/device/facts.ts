// What a file of `scanline export --onnx` says about itself: its configuration, among the properties of the model.

import type { Scale } from "./mixture";

export interface Facts {
  height: number;
  width: number;
  channels: number;
  layers: number;
  heads: number;
  key_width: number;
  value_width: number;
  scale: Scale;
  start_token: boolean;
  first_byte_histogram: number[] | null;
}

const PROPERTIES = 14; // of ModelProto, each of which has a key (1) and a value (2)

/** The configuration in an ONNX file. */
export function factsOf(file: Uint8Array): Facts {
  for (const property of fields(file, PROPERTIES)) {
    const [key, value] = [1, 2].map((field) => new TextDecoder().decode([...fields(property, field)][0]));
    if (key === "scanline.config") return JSON.parse(value!) as Facts;
  }
  throw new Error("The file is not one that scanline exported.");
}

/** The parts of a protobuf message that have that number and a length. */
function* fields(message: Uint8Array, wanted: number): Generator<Uint8Array> {
  let at = 0;
  const number = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = message[at++]!;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = number();
    if (tag % 8 === 0) number();
    else if (tag % 8 === 2) {
      const length = number();
      if (Math.floor(tag / 8) === wanted) yield message.subarray(at, at + length);
      at += length;
    } else throw new Error("The file is not ONNX.");
  }
}
