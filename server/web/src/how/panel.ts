// How it works: one image as it is painted, and beside it all that the model remembers of it in one layer and head.
// What was seen is kept, so that the slider goes back to any moment.

import type { Model } from "../api/models";
import { begin } from "../api/stream";
import { find, make } from "../elements";
import { sayError, withdraw } from "../look/notice";
import { isShown } from "../look/tabs";
import { whenModel } from "../look/model";
import { drawSeed } from "../paint/wish";
import { Picture } from "../pictures/picture";
import { largest, readGlimpse, type Glimpse } from "./glimpse";
import { enlarge, heat } from "./heat";

const ROOM = 224; // CSS pixels for the picture, and for s

let model: Model | undefined;
let seed = "";
let picture: Picture | undefined;
let seen: Glimpse[] = [];
let most = { s: 0, z: 0 };
let trace: number[] = []; // layer and head
let stop: (() => void) | undefined;

export function setUpHow(): void {
  const chosen = ["layer", "head"].map((id) => find(id, HTMLSelectElement));
  for (const select of chosen) select.addEventListener("change", () => watch(seed));
  find("watch", HTMLButtonElement).addEventListener("click", () => watch(drawSeed()));
  find("moment", HTMLInputElement).addEventListener("input", show);
  window.addEventListener("tab", () => isShown("how") && model && !picture && watch(drawSeed()));
  window.addEventListener("resize", show);
  whenModel((wanted) => {
    model = wanted;
    picture = undefined;
    fill("layer", wanted.layers);
    fill("head", wanted.heads);
    if (isShown("how")) watch(drawSeed());
  });
}

function fill(id: string, count: number): void {
  const options = Array.from({ length: count }, (_, index) => make("option", { value: String(index) }, `${index + 1}`));
  find(id, HTMLSelectElement).replaceChildren(...options);
}

/** Paints one image and keeps what its state was on the way. */
function watch(wanted: string): void {
  stop?.();
  withdraw();
  seed = wanted;
  const painting = (picture = new Picture(model!));
  const isCurrent = () => picture === painting;
  forget();
  trace = ["layer", "head"].map((id) => Number(find(id, HTMLSelectElement).value));
  stop = begin(
    { type: "generate", model: model!.id, n: 1, seed, trace },
    {
      started: () => isCurrent() && forget(),
      frame: ({ first, bytes }) => painting.paint(first, bytes),
      other: (message) => isCurrent() && message.type === "trace" && keep(readGlimpse(message)),
      failed: (refusal) => isCurrent() && sayError(refusal),
    },
  );
}

function forget(): void {
  seen = [];
  most = { s: 0, z: 0 };
}

/** Takes in the newest state; who looks at the newest goes on to it. */
function keep(glimpse: Glimpse): void {
  const moment = find("moment", HTMLInputElement);
  const follows = Number(moment.value) >= seen.length - 1;
  seen.push(glimpse);
  most = { s: Math.max(most.s, largest(glimpse.s)), z: Math.max(most.z, largest(glimpse.z)) };
  moment.max = String(seen.length - 1);
  if (follows || seen.length === 1) moment.value = moment.max;
  requestAnimationFrame(show);
}

/** Shows the moment of the slider. */
function show(): void {
  const glimpse = seen[Number(find("moment", HTMLInputElement).value)];
  if (!glimpse || !picture) return;
  const { position, s, z } = glimpse;
  const until = Math.floor(position / picture.size.channels);
  const shown = picture.copy((pixel) => pixel < until).canvas;
  const canvas = find("watched", HTMLCanvasElement);
  Object.assign(canvas, { width: shown.width, height: shown.height });
  canvas.getContext("2d")!.drawImage(shown, 0, 0);
  enlarge(canvas, shown.width, ROOM);

  const width = s.length / z.length;
  heat(find("heat-s", HTMLCanvasElement), s, width, most.s);
  heat(find("heat-z", HTMLCanvasElement), z, 1, most.z);
  for (const id of ["heat-s", "heat-z"]) enlarge(find(id, HTMLCanvasElement), width, ROOM);
  find("heat-z", HTMLCanvasElement).style.width = "24px"; // one column would be a thread
  const [layer, head] = trace.map((index) => index + 1);
  const label = `The numbers of s in layer ${layer}, head ${head}, as colours`;
  find("heat-s", HTMLCanvasElement).setAttribute("aria-label", label);
  const [done, all] = [position, picture.bytes.length].map((bytes) => bytes.toLocaleString("en"));
  find("moment-shown", HTMLOutputElement).value = `${done} of ${all}`;
  const numbers = `s: ${z.length} × ${width} numbers, z: ${z.length}`;
  find("sizes", HTMLElement).textContent = `${numbers}. As many after the first byte as after the last.`;
}
