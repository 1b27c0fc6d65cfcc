// The dialog that shows one image enlarged, with its figures, and buttons to save or complete it.

import { completeThis } from "../complete/panel";
import { enlarge, find, pixelScale, setText } from "../elements";
import { png, save } from "../pictures/files";
import { showTab } from "../shell/tabs";
import type { Tile } from "./gallery";
import { nameOfFile, type GenerateRequest } from "./request";

const [ROOM, MARGIN] = [336, 96]; // CSS pixels

export function showImage(tiles: Tile[], index: number, request: GenerateRequest): void {
  const { picture, finished, button } = tiles[index]!;
  const { width, height } = picture.size;

  const canvas = find("viewed", HTMLCanvasElement);
  Object.assign(canvas, { width, height });
  enlarge(canvas, pixelScale(width, Math.min(ROOM, window.innerWidth - MARGIN)));
  canvas.getContext("2d")!.drawImage(picture.canvas, 0, 0);

  const bits = finished?.bitsPerDim == null ? "not finished" : `${finished.bitsPerDim.toFixed(3)} bits/dim`;
  setText("viewer-title", `Image ${index + 1} of ${tiles.length}`);
  const name = finished?.class ?? request.class;
  const ofClass = name === undefined ? "" : `class ${name} · `;
  const guided = request.guidance === undefined ? "" : ` · guidance ${request.guidance}`;
  const drawn = `seed ${request.seed} · temperature ${request.temperature}${guided}`;
  setText("viewer-figures", `${request.model} · ${ofClass}${drawn} · ${bits}`);

  const dialog = find("viewer", HTMLDialogElement);
  find("viewer-close", HTMLButtonElement).onclick = () => dialog.close();
  find("viewer-save", HTMLButtonElement).onclick = async () =>
    save(await png(picture.canvas), `${nameOfFile(request)}-image-${index}.png`);
  const complete = find("viewer-complete", HTMLButtonElement);
  complete.disabled = !picture.done;
  complete.onclick = () => {
    dialog.close();
    completeThis(picture);
    showTab("complete", true);
  };
  dialog.onclose = () => button.focus();
  dialog.showModal();
}
