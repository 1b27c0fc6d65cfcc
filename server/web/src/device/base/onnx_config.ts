// The model configuration that `scanline export --onnx` stores in the file's metadata, read from the protobuf directly.

export interface OnnxConfig {
  height: number;
  width: number;
  channels: number;
  layers: number;
  heads: number;
  key_width: number;
  value_width: number;
  blocks: number;
  neighbours: boolean;
  components: number;
  scale: "exp" | "elu";
  step: "byte" | "pixel";
  predicts: "logistics" | "categorical" | "pixel_logistics";
  start_token: boolean;
  first_byte_histogram: number[] | null;
  classes: string[][];
}

/** Bytes that one step paints. */
export const stepBytes = ({ step, channels }: Pick<OnnxConfig, "step" | "channels">): number => (step === "pixel" ? channels : 1);

const METADATA_PROPS = 14; // the field of ModelProto; each entry has a key (1) and a value (2)

/** Returns the configuration; throws if the file has none. */
export function readConfig(file: Uint8Array): OnnxConfig {
  for (const property of fields(file, METADATA_PROPS)) {
    const [key, value] = [1, 2].map((field) => new TextDecoder().decode([...fields(property, field)][0]));
    if (key === "scanline.config") return JSON.parse(value!) as OnnxConfig;
  }
  throw new Error("The file was not exported by scanline.");
}

/** The length-delimited fields of a protobuf message that have that number. */
function* fields(message: Uint8Array, number: number): Generator<Uint8Array> {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = message[at++]!;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = varint();
    if (tag % 8 === 0) varint();
    else if (tag % 8 === 2) {
      const length = varint();
      if (Math.floor(tag / 8) === number) yield message.subarray(at, at + length);
      at += length;
    } else throw new Error("The file is not ONNX.");
  }
}
