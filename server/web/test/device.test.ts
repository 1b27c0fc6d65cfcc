// The page samples the same bytes as the server: compared with vectors of the Python code (tests/support/page/vectors.py).

import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { fromBase64 } from "../src/base/base64";
import { Decoder, encode, type Interval } from "../src/device/codec/coder";
import { goThrough, histogramStarts, intervalOf, valueAt } from "../src/device/codec/quantised_cdf";
import { EXP2, LOG2, SIGMOID } from "../src/device/codec/tables";
import { distributionOf } from "../src/device/distributions/distribution";
import { firstByte, type Draw } from "../src/device/distributions/draw";
import { exponential, logarithm, logOneMinusExponential, logSigmoid } from "../src/device/distributions/elementary";
import type { OnnxConfig } from "../src/device/base/onnx_config";
import { labelOfImage, philox, uniforms } from "../src/device/painting/philox";
import vectors from "./vectors.json";

type Pair = [number, number];

test.each(vectors.philox)("philox of $counter and $key", ({ counter, key, words }) => {
  expect(philox(counter as Parameters<typeof philox>[0], key as Pair)).toEqual(words);
});

test.each(vectors.uniforms)("uniforms of $seed, $index, $position", ({ seed, index, position, uniforms: expected }) => {
  expect(uniforms(BigInt(seed), index, position)).toEqual(expected);
});

test.each(vectors.labels)("the label of image $index of label $label, seed $seed", ({ label, seed, index, of_image }) => {
  expect(labelOfImage(label, BigInt(seed), index)).toBe(of_image);
});

describe.each(vectors.samples)("$name at temperature $temperature", (of) => {
  const distribution = distributionOf(of.config as OnnxConfig);
  const each = of.bytes.length / of.parameters.length;
  const parametersOf = (sample: number) => Float32Array.from(of.parameters[Math.floor(sample / each)]!);

  test("bytes", () => {
    const bytes = of.draws.map((draws, i) => {
      const known = of.known[i]!.map((byte) => byte ?? undefined);
      return distribution.sample(parametersOf(i), draws as unknown as Draw[], Math.fround(of.temperature), known);
    });
    expect(bytes).toEqual(of.bytes);
  });

  test("bits", () => {
    of.bytes.forEach((bytes, i) => {
      const bits = distribution.bits(parametersOf(i), bytes);
      expect(Math.abs(bits / of.bits[i]! - 1)).toBeLessThan(1e-4);
    });
  });
});

test("tables of codes", () => {
  const digest = (table: Float64Array) => createHash("sha256").update(`(${[...table].join(", ")})`).digest("hex");
  expect([EXP2, LOG2, SIGMOID].map(digest)).toEqual(vectors.tables);
});

describe.each(vectors.codes)("codes of $config", ({ config, parameters, bytes, intervals, code }) => {
  const steps = parameters.map((step) => new Float32Array(fromBase64(step).buffer));
  const predicts = config as Parameters<typeof goThrough>[0];

  test("intervals of bytes, and the code of all", () => {
    const found: Interval[] = [];
    steps.forEach((step, i) => {
      const left = [...bytes[i]!];
      goThrough(predicts, step, (starts) => {
        found.push(intervalOf(starts, left[0]!));
        return left.shift()!;
      });
    });
    expect(found).toEqual(intervals);
    expect(Buffer.from(encode(found)).toString("hex")).toBe(code);
  });

  test("a decoder finds the bytes", () => {
    const decoder = new Decoder(Buffer.from(code, "hex"));
    const decoded = steps.map((step) => {
      const found: number[] = [];
      goThrough(predicts, step, (starts) => {
        const value = valueAt(starts, decoder.target);
        decoder.take(intervalOf(starts, value));
        found.push(value);
        return value;
      });
      return found;
    });
    expect(decoded).toEqual(bytes);
  });
});

test("intervals of a first byte", () => {
  expect(vectors.first.starts.map((_, value) => histogramStarts(vectors.first.histogram)(value))).toEqual(vectors.first.starts);
});

test("first bytes from a histogram", () => {
  const { histogram, draws } = vectors.first;
  const bytes = draws.map(({ uniforms: [uniform], temperature }) => firstByte(histogram, uniform!, temperature));
  expect(bytes).toEqual(draws.map(({ byte }) => byte));
});

/** Numbers on both sides of zero, from tiny to `most`. */
const spread = (most: number) => Array.from({ length: 4001 }, (_, i) => Math.fround(most * ((i - 2000) / 2000) ** 3));

test.each([
  { name: "exponential", found: exponential, expected: Math.exp, over: spread(87) },
  { name: "logarithm", found: logarithm, expected: Math.log, over: spread(85).map(exponential) },
  {
    name: "logOneMinusExponential",
    found: logOneMinusExponential,
    expected: (a: number) => Math.log(-Math.expm1(-a)),
    over: spread(15).filter((x) => x > 1e-9),
    bound: 8,
  },
  {
    name: "logSigmoid",
    found: logSigmoid,
    expected: (x: number) => Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x))),
    over: spread(80),
  },
])("$name is exact but for rounding, in float32", ({ found, expected, over, bound = 3 }) => {
  const errors = over.map((x) => Math.abs(found(x) - expected(x)) / Math.max(Math.abs(expected(x)), 1e-30));
  expect(Math.max(...errors)).toBeLessThan(bound * 2 ** -24);
  expect(over.map(found)).toEqual(over.map((x) => Math.fround(found(x))));
});
