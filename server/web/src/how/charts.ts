// Small charts: the distribution of a byte, and what softmax attention would take beside (s, z).

import { find, setText } from "../elements";
import type { StepSource } from "./step_source";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [256, 72];

function shape(tag: string, attributes: Record<string, string | number>): SVGElement {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/** The probabilities of the 256 values, the drawn one marked. The root makes small ones visible. */
export function drawBars(probabilities: Float32Array, drawn: number): SVGElement {
  const chart = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + 8}`, role: "img", class: "bars" });
  const most = Math.max(...probabilities);
  const tall = (value: number) => HEIGHT * Math.sqrt(value / most);
  const path = Array.from(probabilities, (value, index) => `M${index} ${HEIGHT}h1v${-tall(value)}h-1z`).join("");
  const marked = shape("path", { d: `M${drawn} ${HEIGHT}h1v${-tall(probabilities[drawn]!)}h-1z`, class: "drawn" });
  const arrow = shape("path", { d: `M${drawn + 0.5} ${HEIGHT + 1}l3 6h-6z`, class: "drawn" });
  chart.append(shape("path", { d: path }), marked, arrow);
  const share = (100 * probabilities[drawn]!).toPrecision(3);
  chart.setAttribute("aria-label", `Probabilities of 256 values; ${drawn} was drawn, which had ${share} %`);
  return chart;
}

/** Memory and time after the step `at`, those of softmax attention beside the constant ones. */
export function drawCharts(source: StepSource, at: number): void {
  const costs = [...source.costs.values()].sort((a, b) => a.steps - b.steps);
  const last = costs[costs.length - 1]!;
  const perStep = last.cache_bytes / last.steps;
  const steps = at + 1;
  const cache = perStep * steps;
  const [kept, ratio] = [last.state_bytes, (perStep * steps) / last.state_bytes];
  const times = ratio >= 1 ? `${ratio.toPrecision(2)} times` : `${percent(ratio)} of`;
  const crossing = Math.ceil(kept / perStep);
  setText(
    "say-cost",
    `Softmax attention would keep the keys and values of ${steps === 1 ? "this first step" : `all ${steps} steps`}: ${size(cache)}, ${times} the ` +
      `${size(kept)} of (s, z) in all layers and heads. The cache grows with every step and is larger from step ` +
      `${crossing} on; (s, z) never grows.`,
  );
  const line = (from: number, to: number): Point[] => [[0, from], [source.count, to]];
  const total = perStep * source.count;
  const memory = { softmax: line(0, total), linear: line(kept, kept) };
  plot("chart-memory", source.count, steps, total, size(total), memory, false);

  const near = costs.reduce((best, cost) => (Math.abs(cost.steps - steps) < Math.abs(best.steps - steps) ? cost : best));
  const slowest = Math.max(...costs.flatMap((cost) => [cost.softmax_seconds, cost.linear_seconds]));
  const points = (name: "softmax_seconds" | "linear_seconds") => costs.map((cost): Point => [cost.steps, cost[name]]);
  const measured = { softmax: points("softmax_seconds"), linear: points("linear_seconds") };
  plot("chart-time", source.count, steps, slowest, milliseconds(slowest), measured, true);
  const [softmax, linear] = [milliseconds(near.softmax_seconds), milliseconds(near.linear_seconds)];
  setText(
    "say-measured",
    `Measured by this server at step ${near.steps}, in PyTorch, on one thread, for one image: ${softmax} with the cache, ` +
      `${linear} with (s, z). Each row that you visit adds a point. The time of softmax grows with the number of ` +
      "steps, that of (s, z) does not; of one small image alone, much of both is the cost of calling PyTorch.",
  );
}

type Point = [x: number, y: number];

/** Draws lines, with dots at what was measured, up to `most`, and a rule at the current step. */
function plot(
  id: string,
  count: number,
  steps: number,
  most: number,
  label: string,
  series: Record<string, Point[]>,
  dots: boolean,
): void {
  const chart = find(id, SVGElement);
  chart.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT + 18}`);
  const x = (at: number) => 2 + ((WIDTH - 4) * at) / count;
  const y = (value: number) => 14 + (HEIGHT - 14) * (1 - value / (most || 1));
  const text = (content: string, attributes: Record<string, string | number>) => {
    const element = shape("text", attributes);
    element.textContent = content;
    return element;
  };
  const rule = shape("path", { d: `M${x(steps)} 14V${HEIGHT}`, class: "rule" });
  const axis = shape("path", { d: `M2 14V${HEIGHT}H${WIDTH - 2}`, class: "axis" });
  const drawn = Object.entries(series).flatMap(([name, points]) => [
    shape("polyline", { points: points.map(([at, value]) => `${x(at)},${y(value)}`).join(" "), class: name }),
    ...(dots ? points.map(([at, value]) => shape("circle", { cx: x(at), cy: y(value), r: 2, class: name })) : []),
  ]);
  const ends = [
    text(label, { x: 2, y: 9 }),
    text("0", { x: 2, y: HEIGHT + 12 }),
    text(`${count} steps`, { x: WIDTH - 2, y: HEIGHT + 12, "text-anchor": "end" }),
  ];
  chart.replaceChildren(axis, rule, ...drawn, ...ends);
  chart.setAttribute("aria-label", `${id === "chart-memory" ? "Memory" : "Time"} over steps, up to ${label}`);
}

const percent = (part: number): string => `${(100 * part).toPrecision(2)} %`;
const milliseconds = (seconds: number): string => `${(1000 * seconds).toPrecision(2)} ms`;
const size = (bytes: number): string =>
  bytes < 1e6 ? `${(bytes / 1e3).toPrecision(3)} kB` : `${(bytes / 1e6).toPrecision(3)} MB`;
