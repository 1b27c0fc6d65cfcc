// One image, large: its figures, its file, and the way to complete it.

import { completeThis } from "../complete/panel";
import { find } from "../elements";
import { showTab } from "../look/tabs";
import { png, save } from "../pictures/files";
import { crisp } from "../pictures/scale";
import type { Tile } from "./gallery";
import type { Wish } from "./wish";

export function showImage(tiles: Tile[], index: number, wish: Wish): void {
  const { picture, bitsPerDim, button } = tiles[index]!;
  const { width, height } = picture.size;
  picture.show();

  const canvas = find("viewed", HTMLCanvasElement);
  const scale = crisp(width, Math.min(336, window.innerWidth - 96));
  Object.assign(canvas, { width, height });
  canvas.style.width = `${width * scale}px`;
  canvas.style.height = `${height * scale}px`;
  canvas.getContext("2d")!.drawImage(picture.canvas, 0, 0);

  find("viewer-title", HTMLElement).textContent = `Image ${index + 1} of ${tiles.length}`;
  const bits = bitsPerDim == null ? "not done" : `${bitsPerDim.toFixed(3)} bits/dim`;
  find("viewer-figures", HTMLElement).textContent =
    `${wish.model} · seed ${wish.seed} · temperature ${wish.temperature} · ${bits}`;

  const dialog = find("viewer", HTMLDialogElement);
  find("viewer-close", HTMLButtonElement).onclick = () => dialog.close();
  find("viewer-save", HTMLButtonElement).onclick = async () =>
    save(await png(picture.canvas), `${wish.model}-seed-${wish.seed}-image-${index}.png`);
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
