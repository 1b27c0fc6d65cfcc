// The numbers of one step, as heat maps with common scales, sentences and charts.

import { uniforms } from "../device/painting/philox";
import { enlarge, find, make, pixelScale, setText } from "../base/elements";
import type { Picture, Size } from "../pictures/picture";
import { drawBars, drawCharts } from "./charts";
import { drawHeatMap } from "./heat_map";
import type { Step, StepSource } from "./step_source";

const MATRIX_ROOM = 168; // CSS pixels, at most
const STRIP_ROOM = 256;
const STRIP_HEIGHT = "14px";
const WINDOW_ROOM = 182;
const SMALL_ROOM = 104; // of what the whole shows
const THREE_STRIPS = "24px";

const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, minimumSignificantDigits: 3, useGrouping: false });
const digits = (value: number): string => three.format(value).replace("-", "−");
const six = new Intl.NumberFormat("en", { maximumSignificantDigits: 6, useGrouping: false });
const precise = (value: number): string => six.format(value).replace("-", "−"); // a small term changes it visibly
const percent = (part: number): string => (part > 0.9995 && part < 1 ? "over 99.9 %" : `${(100 * part).toPrecision(3)} %`);

/** `seed` is undefined where the image was not painted by one. */
export function showStep(source: StepSource, step: Step, at: number, picture: Picture, seed: string | undefined): void {
  showWindow(source, at, picture);
  showWhole(source, step, at, picture);
  const vectors = Math.max(...["q", "k", "v"].map((name) => source.largest[name]!));
  const features = Math.max(source.largest.phi_q!, source.largest.phi_k!);
  strips("projected", [
    ["q", step.q, vectors],
    ["k", step.k, vectors],
    ["v", step.v, vectors],
    ["φ(q)", step.phi_q, features],
    ["φ(k)", step.phi_k, features],
  ]);
  const full = `full colour is the largest so far, ${digits(vectors)} in q, k and v, ${digits(features)} in φ.`;
  setText("scale-projected", `Warm colours are positive, cold ones negative; ${full}`);
  showUpdate(source, step, at);
  showBytes(source, step, at, picture, seed);
  drawCharts(source, at);
}

/** Each part of the step in small. */
function showWhole(source: StepSource, step: Step, at: number, picture: Picture): void {
  const { window: around, key_width: c, value_width: m } = source.layout;
  const { layers, heads } = source.model;
  const { layer, head } = source;
  const small = (id: string, values: Float32Array, width: number, most: number, room = SMALL_ROOM) => {
    const canvas = find(id, HTMLCanvasElement);
    drawHeatMap(canvas, values, width, most);
    enlarge(canvas, pixelScale(width, room));
    return canvas;
  };
  const count = heads * m;
  const what = source.layout.step_bytes === picture.size.channels ? "pixel" : "byte";
  setText("say-whole", `One step draws one ${what}. It reads the pixels before, and a memory that has one size at every step. Press a part to open it.`);
  setText("whole-pixels", around ? `${around[0]} rows above` : "the byte before");
  setText("whole-embedding", `${count} numbers`);
  setText("whole-blocks", `${layers} blocks of ${heads} heads`);
  setText("whole-block", `Block ${layer + 1}, head ${head + 1}:`);
  showPixels("whole-window", source, at, picture, SMALL_ROOM);
  const vectors = Math.max(...["q", "k", "v"].map((name) => source.largest[name]!));
  if (c === m) {
    const canvas = small("whole-projected", Float32Array.from([...step.q, ...step.k, ...step.v]), m, vectors);
    canvas.style.height = THREE_STRIPS;
  } else small("whole-projected", step.q, c, vectors);
  small("whole-s", step.after, m, source.largest.s!, SMALL_ROOM / 1.5);
  small("whole-y", step.y, m, source.largest.y!).style.height = STRIP_HEIGHT;
  const first = source.position(at);
  const drawn = step.probabilities.map((_, byte) => picture.bytes[first + byte]!);
  const charts = step.probabilities.map((probabilities, index) => drawBars(probabilities, drawn[index]!));
  find("whole-bars", HTMLElement).replaceChildren(...charts);
  setText("whole-byte", drawn.join(", "));
  const shade = drawn.length === 3 ? drawn : [drawn[0], drawn[0], drawn[0]];
  find("whole-swatch", HTMLElement).style.background = `rgb(${shade.join(" ")})`;
}

/** Draws the pixels that the step reads; returns whether it reads a window. */
function showPixels(id: string, source: StepSource, at: number, picture: Picture, room: number): boolean {
  const { window: around } = source.layout;
  const { width, channels } = picture.size;
  const canvas = find(id, HTMLCanvasElement);
  canvas.hidden = !around;
  if (!around) return false;
  const [rows, columns] = around;
  const pixel = Math.floor(source.position(at) / channels);
  const [row, column] = [Math.floor(pixel / width), pixel % width];
  Object.assign(canvas, { width: 2 * columns + 1, height: rows + 1 });
  const context = canvas.getContext("2d")!;
  const image = picture.copy((each) => each < pixel).canvas;
  context.drawImage(image, columns - column, rows - row);
  context.fillStyle = "#d9532c";
  context.fillRect(columns, rows, 1, 1);
  enlarge(canvas, pixelScale(canvas.width, room));
  return true;
}

/** The pixels that the step reads, the one to draw left out. */
function showWindow(source: StepSource, at: number, picture: Picture): void {
  const { window: around, step_bytes: bytes } = source.layout;
  const { channels } = picture.size;
  const what = bytes === channels ? "pixel" : "byte";
  showPixels("heat-window", source, at, picture, WINDOW_ROOM);
  if (!around) {
    setText("say-window", `The model is given the value of the previous byte and the place of the ${what} to draw.`);
    return;
  }
  const [rows, columns] = around;
  const area = `${rows} rows above and ${columns} pixels to either side, none that comes later`;
  setText("say-window", `To draw this ${what}, the model reads the painted pixels around it: ${area}.`);
}

/** s and z before and after, and one cell of s in figures. */
function showUpdate(source: StepSource, step: Step, at: number): void {
  const { key_width: c, value_width: m } = source.layout;
  const outer = new Float32Array(c * m).map((_, index) => step.phi_k[Math.floor(index / m)]! * step.v[index % m]!);
  const most = source.largest.s!;
  const room = Math.min(MATRIX_ROOM, (find("stages", HTMLElement).clientWidth - 56) / 3);
  for (const [id, name, values] of [
    ["heat-before", "s before the step", step.before],
    ["heat-outer", "φ(k) times v transposed", outer],
    ["heat-s", "s after the step", step.after],
  ] as const) {
    const canvas = find(id, HTMLCanvasElement);
    drawHeatMap(canvas, values, m, most);
    enlarge(canvas, pixelScale(m, room));
    const range = `from ${digits(Math.min(...values))} to ${digits(Math.max(...values))}`;
    canvas.setAttribute("aria-label", `Heat map of ${name}, ${c} rows of ${m} numbers ${range}`);
  }
  strips("sums", [
    ["z before", step.zBefore, source.largest.z!],
    ["φ(k)", step.phi_k, source.largest.z!],
    ["z after", step.zAfter, source.largest.z!],
  ]);
  setText("scale-s", `One scale for all three: full colour is the largest so far, ${digits(most)} in s, ${digits(source.largest.z!)} in z.`);
  const numbers = (c * m + c).toLocaleString("en");
  const sofar = at === 0 ? "It begins with zeros." : `It holds the sums over ${at === 1 ? "the step" : `all ${at} steps`} before.`;
  setText(
    "say-update",
    `The memory of this head is the matrix s and the vector z: ${numbers} numbers, at every step. ${sofar} ` +
      "This step adds the product of key and value to s, and the key to z.",
  );

  // The cell that changes most, until another is chosen.
  const [rowInput, columnInput] = [find("cell-row", HTMLInputElement), find("cell-column", HTMLInputElement)];
  [rowInput.max, columnInput.max] = [String(c), String(m)];
  const changes = outer.map(Math.abs);
  const greatest = changes.indexOf(Math.max(...changes));
  const chosen = (input: HTMLInputElement, size: number, otherwise: number) =>
    input.value ? Math.min(Math.max(Math.trunc(Number(input.value)), 1), size) - 1 : otherwise;
  const row = chosen(rowInput, c, Math.floor(greatest / m));
  const column = chosen(columnInput, m, greatest % m);
  [rowInput.placeholder, columnInput.placeholder] = [String(row + 1), String(column + 1)];
  const cell = row * m + column;
  const terms = `${precise(step.before[cell]!)} + ${digits(step.phi_k[row]!)} × ${digits(step.v[column]!)}`;
  setText("cell", `s[${row + 1}, ${column + 1}] = ${terms} = ${precise(step.after[cell]!)}`);

  const dot = (of: (index: number) => number) => step.phi_q.reduce((sum, value, index) => sum + value * of(index), 0);
  const weights = dot((index) => step.zAfter[index]!);
  const read = dot((index) => step.after[index * m + column]!);
  const steps = at === 0 ? "its own" : `all ${at + 1} steps so far`;
  setText(
    "say-read",
    `The query asks the memory: each number of y is a mean of the values of ${steps}, weighted by φ(q)ᵀφ(k). ` +
      "Dividing by φ(q)ᵀz makes the weights sum to 1. No earlier key or value is looked at again.",
  );
  strips("read", [
    ["φ(q)", step.phi_q, Math.max(source.largest.phi_q!, source.largest.phi_k!)],
    ["y", step.y, source.largest.y!],
  ]);
  const quotient = `${digits(read)} / ${digits(weights)} = ${digits(step.y[column]!)}`;
  setText("read-cell", `y[${column + 1}] = φ(q)ᵀ s[·, ${column + 1}] / φ(q)ᵀ z = ${quotient}`);
}

/** Shows the weights of all steps up to one, each at the pixel that it drew; returns those of all pixels. */
export function showWeights(source: StepSource, weights: Float32Array, size: Size): Float32Array {
  const pixels = new Float32Array(size.width * size.height);
  weights.forEach((weight, step) => (pixels[Math.floor(source.position(step) / size.channels)]! += weight));
  const most = Math.max(...pixels);
  const canvas = find("heat-weights", HTMLCanvasElement);
  canvas.hidden = false;
  drawHeatMap(canvas, pixels, size.width, most);
  enlarge(canvas, pixelScale(size.width, MATRIX_ROOM));
  const [row, column] = [Math.floor(pixels.indexOf(most) / size.width) + 1, (pixels.indexOf(most) % size.width) + 1];
  const even = percent(1 / weights.length);
  setText(
    "say-weights",
    `The weights φ(q)ᵀφ(k) / φ(q)ᵀz of the steps so far, at their pixels: at most ${percent(most)}, in row ${row}, column ` +
      `${column}; if all were equal, each would be ${even}. Softmax attention would keep every key for them; (s, z) has ` +
      "their sum only.",
  );
  return pixels;
}

/** The distribution of each byte of the step, and the byte that was drawn. */
function showBytes(source: StepSource, step: Step, at: number, picture: Picture, seed: string | undefined): void {
  const first = source.position(at);
  const { channels } = picture.size;
  const names = channels === 3 ? ["red", "green", "blue"] : ["the pixel"];
  const drawn = step.probabilities.map((_, byte) => picture.bytes[first + byte]!);
  const each = drawn.map((byte, index) => {
    const name = names[(first + index) % channels]!;
    return `${name} ${seed === undefined ? "is" : "became"} ${byte}, which had probability ${percent(step.probabilities[index]![byte]!)}`;
  });
  const given = drawn.length > 1 ? " Green is drawn given red, blue given both." : "";
  const said = `After ${source.model.layers} layers, the model gives each of the 256 values a probability; ${each.join(", ")}.`;
  const isPicked = seed !== undefined && source.layout.predicts === "categorical";
  setText("say-draw", said + given + (isPicked ? byNumber(step, drawn, seed, first) : ""));
  find("bars", HTMLElement).replaceChildren(
    ...step.probabilities.map((probabilities, index) =>
      make(
        "figure",
        {},
        make("figcaption", {}, drawn.length > 1 ? names[index]! : "Probability of the values 0 (black) to 255 (white)"),
        drawBars(probabilities, drawn[index]!),
      ),
    ),
  );
}

/** The random number that picked the byte, and the values that it picks it for. */
function byNumber(step: Step, [byte]: number[], seed: string, position: number): string {
  const [number] = uniforms(BigInt(seed), 0, position);
  const below = step.probabilities[0]!.subarray(0, byte).reduce((sum, part) => sum + part, 0);
  const above = below + step.probabilities[0]![byte!]!;
  const shortest = Math.min(...[below, above - below, 1 - above].filter((part) => part > 0));
  const places = Math.max(4, Math.min(9, Math.ceil(-Math.log10(shortest)) + 1)); // so that both ends differ, from 0 and 1 too
  const range = `${below.toFixed(places)} to ${above.toFixed(places)}`;
  return ` The seed gave the random number ${number.toFixed(places)}; the probabilities, one after another, pick ${byte} from ${range}.`;
}

/** Vectors as rows of one width, each with its name. */
function strips(id: string, rows: [name: string, values: Float32Array, most: number][]): void {
  const box = find(id, HTMLElement);
  while (box.children.length < 2 * rows.length) {
    const canvas = make("canvas");
    canvas.setAttribute("role", "img");
    box.append(make("span"), canvas);
  }
  rows.forEach(([name, values, most], index) => {
    const [label, canvas] = [box.children[2 * index]!, box.children[2 * index + 1] as HTMLCanvasElement];
    label.textContent = name;
    drawHeatMap(canvas, values, values.length, most);
    enlarge(canvas, pixelScale(values.length, STRIP_ROOM));
    canvas.style.height = STRIP_HEIGHT;
    const range = `from ${digits(Math.min(...values))} to ${digits(Math.max(...values))}`;
    canvas.setAttribute("aria-label", `${name}: ${values.length} numbers ${range}`);
    canvas.title = Array.from(values, digits).join(", ");
  });
}
