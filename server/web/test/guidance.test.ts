// When the page offers guidance.

import { expect, test } from "vitest";
import { reasonAgainst } from "../src/jobs/guidance";

test("guidance is offered for a class and one particle", () => {
  expect(reasonAgainst({ class: "7", particles: 1 })).toBeUndefined();
});

test.each([
  { beside: { class: undefined, particles: 1 }, word: "class" },
  { beside: { class: undefined, particles: 16 }, word: "class" },
  { beside: { class: "7", particles: 4 }, word: "particle" },
])("what excludes guidance is named: $beside", ({ beside, word }) => {
  expect(reasonAgainst(beside)).toMatch(word);
});
