// The page draws and codes as the server does: compared with vectors of the Python code (tests/support/page/vectors.py). What
// the kernel computes is compared in a browser.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Decoder, encode, type Interval } from "../src/device/codec/coder";
import { intervalOf, startsOf } from "../src/device/codec/codes";
import { compiled, Kernel } from "../src/device/kernel/kernel";
import { readModelFile } from "../src/device/kernel/model_file";
import { Network } from "../src/device/kernel/network";
import { firstByte } from "../src/device/painting/painter";
import { cleaned, drawingOn } from "../src/device/reading/cleaning";
import { drawnLabel, philox, uniforms } from "../src/device/painting/philox";
import vectors from "./vectors.json";

type Pair = [number, number];

test.each(vectors.philox)("philox of $counter and $key", ({ counter, key, words }) => {
  expect(philox(counter as Parameters<typeof philox>[0], key as Pair)).toEqual(words);
});

test.each(vectors.uniforms)("uniforms of $seed, $index, $position", ({ seed, index, position, uniforms: expected }) => {
  expect(uniforms(BigInt(seed), index, position)).toEqual(expected);
});

test.each(vectors.labels)("the label of image $index of $classes classes, seed $seed", ({ classes, seed, index, label }) => {
  expect(drawnLabel(classes, BigInt(seed), index)).toBe(label);
});

test("the code of intervals, which a decoder finds", () => {
  const { intervals, code } = vectors.code;
  expect(Buffer.from(encode(intervals as unknown as Interval[])).toString("hex")).toBe(code);
  const decoder = new Decoder(Buffer.from(code, "hex"));
  for (const [start, width] of intervals as unknown as Interval[]) {
    expect(decoder.target).toBeGreaterThanOrEqual(start);
    expect(decoder.target).toBeLessThan(start + width);
    decoder.take([start, width]);
  }
});

test("intervals of a first byte", () => {
  const { histogram, starts } = vectors.first;
  expect(startsOf(histogram)).toEqual(starts);
  expect(intervalOf(starts, 255)).toEqual([starts[255], starts[256]! - starts[255]!]);
});

test("first bytes from a histogram", () => {
  const { histogram, draws } = vectors.first;
  const bytes = draws.map(({ uniforms: [uniform], temperature }) => firstByte(histogram, uniform!, Math.fround(temperature)));
  expect(bytes).toEqual(draws.map(({ byte }) => byte));
});

test.each(vectors.cleaned)("the bytes that are read of a drawing", ({ shape, cleaning, size, picture, bytes, noisy }) => {
  const of = shape as Parameters<typeof cleaned>[1];
  const sent = Uint8Array.from(picture);
  if (of.channels === 1) expect([...drawingOn(sent, size, of, cleaning)!]).toEqual(bytes);
  if (size.width !== of.width) return;
  const found = cleaned(sent, of, cleaning);
  expect([...found.bytes]).toEqual(bytes);
  expect(found.noise > 0).toBe(noisy);
});

test("a model's file, whose halves become float32 numbers, and one that was cut off", () => {
  const file = Buffer.from(vectors.model.file, "base64");
  const whole = new Uint8Array(file).buffer;
  const { tensors, shape, weights } = readModelFile(whole);
  expect(tensors.map((tensor) => [...tensor])).toEqual(vectors.model.tensors);
  expect([shape.height, weights]).toEqual([vectors.model.height, vectors.model.weights]);
  for (const size of [0, 7, 100, whole.byteLength - 1]) {
    expect(() => readModelFile(whole.slice(0, size))).toThrow("The model's file is damaged or was cut off: load it again.");
  }
});

test("a browser without SIMD, and a file for another kernel, get one sentence", async () => {
  const unknown = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 99);
  await expect(compiled(unknown)).rejects.toThrow("This browser cannot run the model: it has no WebAssembly with SIMD.");
  const code = readFileSync(new URL("../../../kernels/cpu/wasm/step.wasm", import.meta.url));
  const kernel = await Kernel.open(await compiled(code));
  const file = readModelFile(new Uint8Array(Buffer.from(vectors.model.file, "base64")).buffer);
  expect(new Network(kernel, file).bytes).toBe(2);
  const other = { ...file, abi: file.abi + 1 };
  expect(() => new Network(kernel, other)).toThrow("The model's file is for another version of this page: reload the page.");
});
