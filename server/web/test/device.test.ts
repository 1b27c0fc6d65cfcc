// The page draws what the server draws: against vectors of the Python code (tests/support/page_vectors.py).

import { expect, test } from "vitest";
import { sample, sampleFirst, type Scale } from "../src/device/mixture";
import { philox, uniforms } from "../src/device/philox";
import vectors from "./vectors.json";

type Pair = [number, number];

test.each(vectors.philox)("philox of $counter and $key", ({ counter, key, words }) => {
  expect(philox(counter as Parameters<typeof philox>[0], key as Pair)).toEqual(words);
});

test.each(vectors.uniforms)("uniforms of $seed, $index, $position", ({ seed, index, position, uniforms: wanted }) => {
  expect(uniforms(BigInt(seed), index, position)).toEqual(wanted);
});

test.each(vectors.mixture)("bytes of mixtures, scale $scale, temperature $temperature", (held) => {
  const painted = held.parameters.map((parameters, i) =>
    sample(Float32Array.from(parameters), held.uniforms[i] as Pair, held.temperature, held.scale as Scale),
  );
  expect(painted).toEqual(held.bytes);
});

test("first bytes from a histogram", () => {
  const { histogram, draws } = vectors.first;
  const painted = draws.map((draw) => sampleFirst(histogram, draw.uniforms as Pair, draw.temperature));
  expect(painted).toEqual(draws.map(({ byte }) => byte));
});
