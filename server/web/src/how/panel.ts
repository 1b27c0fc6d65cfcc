// How it works: one image while it is painted, beside the state (s, z) of one layer and head. The slider goes back to
// earlier snapshots of it.

import type { Model } from "../api/models";
import { runJob } from "../api/websocket";
import { enlarge, find, make, onClick, pixelScale, setText } from "../elements";
import { randomSeed } from "../jobs/form_fields";
import { Picture } from "../pictures/picture";
import { onModel } from "../shell/model";
import { clearNotice, showError } from "../shell/notice";
import { isShown } from "../shell/tabs";
import { drawHeatMap, largestMagnitude, readSnapshot, type StateSnapshot } from "./state_snapshot";

const ROOM = 224; // CSS pixels for the picture, and for s
const Z_WIDTH = "24px"; // z has one column, which would be too narrow at the scale of s

let model: Model | undefined;
let seed = "";
let picture: Picture | undefined;
let snapshots: StateSnapshot[] = [];
let largest = { s: 0, z: 0 };
let shownHead: number[] = []; // layer and head
let control: AbortController | undefined; // of the current job

export function setUpHow(): void {
  for (const id of ["layer", "head"]) find(id, HTMLSelectElement).addEventListener("change", () => paint(seed));
  onClick("watch", () => paint(randomSeed()));
  find("moment", HTMLInputElement).addEventListener("input", show);
  window.addEventListener("tab", () => isShown("how") && model && !picture && paint(randomSeed()));
  window.addEventListener("resize", show);
  onModel((selected) => {
    model = selected;
    picture = undefined;
    fillSelect("layer", selected.layers);
    fillSelect("head", selected.heads);
    if (isShown("how")) paint(randomSeed());
  });
}

function fillSelect(id: string, count: number): void {
  const options = Array.from({ length: count }, (_, index) => make("option", { value: String(index) }, `${index + 1}`));
  find(id, HTMLSelectElement).replaceChildren(...options);
}

/** Paints one image and keeps the snapshots of its state. */
function paint(newSeed: string): void {
  control?.abort();
  clearNotice();
  const { signal } = (control = new AbortController());
  seed = newSeed;
  const painted = (picture = new Picture(model!));
  const clear = () => {
    if (signal.aborted) return;
    snapshots = [];
    largest = { s: 0, z: 0 };
  };
  clear();
  shownHead = ["layer", "head"].map((id) => Number(find(id, HTMLSelectElement).value));
  runJob(
    { type: "generate", model: model!.id, n: 1, seed, state: shownHead },
    {
      started: clear,
      frame: ({ first, bytes }) => void painted.paint(first, bytes),
      state: (message) => signal.aborted || add(readSnapshot(message)),
    },
    signal,
  ).catch((error) => signal.aborted || showError(error));
}

/** Keeps a new snapshot; the slider moves to it if it was at the previous one. */
function add(snapshot: StateSnapshot): void {
  const moment = find("moment", HTMLInputElement);
  const isAtEnd = Number(moment.value) >= snapshots.length - 1;
  snapshots.push(snapshot);
  const { s, z } = snapshot;
  largest = { s: Math.max(largest.s, largestMagnitude(s)), z: Math.max(largest.z, largestMagnitude(z)) };
  moment.max = String(snapshots.length - 1);
  moment.hidden = snapshots.length < 2;
  if (isAtEnd || snapshots.length === 1) moment.value = moment.max;
  requestAnimationFrame(show);
}

/** Shows the snapshot that the slider selects. */
function show(): void {
  const snapshot = snapshots[Number(find("moment", HTMLInputElement).value)];
  if (!snapshot || !picture) return;
  const { position, s, z } = snapshot;
  const pixels = Math.floor(position / picture.size.channels);
  const image = picture.copy((pixel) => pixel < pixels).canvas;
  const watched = find("watched", HTMLCanvasElement);
  Object.assign(watched, { width: image.width, height: image.height });
  watched.getContext("2d")!.drawImage(image, 0, 0);
  enlarge(watched, pixelScale(image.width, ROOM));

  const width = s.length / z.length;
  const [matrix, vector] = [find("heat-s", HTMLCanvasElement), find("heat-z", HTMLCanvasElement)];
  drawHeatMap(matrix, s, width, largest.s);
  drawHeatMap(vector, z, 1, largest.z);
  for (const canvas of [matrix, vector]) enlarge(canvas, pixelScale(width, ROOM));
  vector.style.width = Z_WIDTH;
  const [layer, head] = shownHead.map((index) => index + 1);
  matrix.setAttribute("aria-label", `Heat map of s in layer ${layer}, head ${head}`);
  const [done, all] = [position, picture.bytes.length].map((bytes) => bytes.toLocaleString("en"));
  find("moment-shown", HTMLOutputElement).value = `${done} of ${all}`;
  setText("sizes", `s: ${z.length} × ${width} numbers, z: ${z.length}. The size is the same after every step.`);
}
