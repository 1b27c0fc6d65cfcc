// The page samples the same bytes as the server: compared with vectors of the Python code (tests/support/page_vectors.py).

import { expect, test } from "vitest";
import { sample, sampleFirst, type Scale } from "../src/device/mixture";
import { philox, uniforms } from "../src/device/philox";
import vectors from "./vectors.json";

type Pair = [number, number];

test.each(vectors.philox)("philox of $counter and $key", ({ counter, key, words }) => {
  expect(philox(counter as Parameters<typeof philox>[0], key as Pair)).toEqual(words);
});

test.each(vectors.uniforms)("uniforms of $seed, $index, $position", ({ seed, index, position, uniforms: expected }) => {
  expect(uniforms(BigInt(seed), index, position)).toEqual(expected);
});

test.each(vectors.mixture)("bytes of mixtures, scale $scale, temperature $temperature", (mixture) => {
  const bytes = mixture.parameters.map((parameters, i) =>
    sample(Float32Array.from(parameters), mixture.uniforms[i] as Pair, mixture.temperature, mixture.scale as Scale),
  );
  expect(bytes).toEqual(mixture.bytes);
});

test("first bytes from a histogram", () => {
  const { histogram, draws } = vectors.first;
  const bytes = draws.map((draw) => sampleFirst(histogram, draw.uniforms as Pair, draw.temperature));
  expect(bytes).toEqual(draws.map(({ byte }) => byte));
});
