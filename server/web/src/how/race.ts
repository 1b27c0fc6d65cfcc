// A race: (s, z) and softmax attention with a cache each paint an image of as many pixels as steps were timed, at the
// recorded time of each step, faster. It ends when (s, z) has painted its image; that is shown before it starts, and without
// motion.

import { find, onClick, setText } from "../base/elements";
import recorded from "./step_times.json"; // milliseconds, recorded once (docs/page.md)

const SECONDS = 5; // that it takes here: what moves longer would need a way to stop it
const STEPS = recorded.steps.at(-1)!;
const SIDE = Math.sqrt(STEPS);

/** When each number of steps has been made, from none on, in milliseconds; between timed steps it is interpolated. */
function ends(times: number[]): Float64Array {
  const { steps } = recorded;
  const sums = new Float64Array(STEPS + 1);
  for (let step = 1, next = 1; step <= STEPS; step++) {
    if (step > steps[next]!) next++;
    const part = (step - steps[next - 1]!) / (steps[next]! - steps[next - 1]!);
    sums[step] = sums[step - 1]! + times[next - 1]! + part * (times[next]! - times[next - 1]!);
  }
  return sums;
}

const lanes = { linear: ends(recorded.linear), softmax: ends(recorded.softmax) };
const end = lanes.linear[STEPS]!;
const seconds = (time: number) => `${Math.round(time / 1000)} s`;
let frame = 0;

export function setUpRace(): void {
  const slower = lanes.softmax[STEPS]!;
  setText(
    "say-race",
    `At these times, an image of ${SIDE} × ${SIDE} pixels takes ${seconds(end)} with (s, z) and ${seconds(slower)} with softmax ` +
      `and its cache: ${(slower / end).toPrecision(2)} times as long. The race is ${Math.round(end / 1000 / SECONDS)} times as ` +
      "fast, and ends when the first image is painted.",
  );
  show(end);
  const isStill = matchMedia("(prefers-reduced-motion: reduce)");
  onClick("race-go", () => {
    cancelAnimationFrame(frame);
    const start = performance.now();
    const draw = () => {
      const part = isStill.matches ? 1 : Math.min(1, (performance.now() - start) / (1000 * SECONDS));
      show(part * end);
      if (part < 1) frame = requestAnimationFrame(draw);
    };
    draw();
  });
}

/** Shows what both have painted after that time. */
function show(time: number): void {
  const places = Object.entries(lanes).map(([name, sums]) => {
    const later = sums.findIndex((end) => end > time);
    const painted = later < 0 ? STEPS : later - 1;
    const [row, column] = [Math.floor(painted / SIDE), painted % SIDE];
    find(`race-${name}`, SVGPathElement).setAttribute("d", `M0 0H${SIDE}V${row}H${column}V${row + 1}H0z`);
    return `${painted.toLocaleString("en")} with ${name === "linear" ? "(s, z)" : "softmax"}`;
  });
  setText("race-place", `Pixels after ${seconds(time)}: ${places.join(", ")}`);
}
