// Small charts: the distribution of a byte, and what softmax attention would take beside (s, z).

import { find, setText } from "../base/elements";
import type { StepSource } from "./step_source";
import recorded from "./step_times.json"; // milliseconds, recorded once (docs/page.md)

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
  chart.setAttribute("aria-label", `Probabilities of 256 values; the image has ${drawn}, which had ${share} %`);
  return chart;
}

/** Memory and time after the step `at`, those of softmax attention beside the constant ones. */
export function drawCharts(source: StepSource, at: number): void {
  const { state: kept, cacheOfStep: perStep } = source.memory;
  const steps = at + 1;
  const cache = perStep * steps;
  const ratio = cache / kept;
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

  const points = (name: "softmax" | "linear") => recorded.steps.map((step, i): Point => [step, recorded[name][i]!]);
  const curves = { softmax: points("softmax"), linear: points("linear") };
  const [last, slowest] = [recorded.steps.length - 1, Math.max(...recorded.softmax)];
  plot("chart-time", recorded.steps[last]!, steps, slowest, milliseconds(slowest), curves, true);
  const both = (i: number) => `${milliseconds(recorded.softmax[i]!)} with the cache and ${milliseconds(recorded.linear[i]!)} with (s, z)`;
  setText(
    "say-measured",
    `Times are not of this model and server: they were measured on ${recorded.date}, on one core (${recorded.cpu}), in PyTorch, ` +
      `for one image and the paper's MNIST network. Step ${recorded.steps[1]!} took ${both(1)}, and step ` +
      `${recorded.steps[last]!.toLocaleString("en")} took ${both(last)}.`,
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
    text(`${count.toLocaleString("en")} steps`, { x: WIDTH - 2, y: HEIGHT + 12, "text-anchor": "end" }),
  ];
  chart.replaceChildren(axis, rule, ...drawn, ...ends);
  chart.setAttribute("aria-label", `${id === "chart-memory" ? "Memory" : "Time"} over steps, up to ${label}`);
}

const percent = (part: number): string => `${(100 * part).toPrecision(2)} %`;
const milliseconds = (value: number): string => `${value.toPrecision(2)} ms`;
const size = (bytes: number): string =>
  bytes < 1e6 ? `${(bytes / 1e3).toPrecision(3)} kB` : `${(bytes / 1e6).toPrecision(3)} MB`;
