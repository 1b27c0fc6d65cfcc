// Which model the page works with: one choice for all tabs, and a line that says what it is.

import type { Model } from "../api/models";
import { find, make } from "../elements";
import { say } from "./notice";

const listeners: ((model: Model) => void)[] = [];
let chosen: Model | undefined;

/** Calls `listener` with the model now, once there is one, and whenever another is chosen. */
export function whenModel(listener: (model: Model) => void): void {
  listeners.push(listener);
  if (chosen) listener(chosen);
}

/** Fills the choice and chooses the model of `?model=`, the first that paints otherwise. */
export function offerModels(all: Model[]): void {
  const models = all.filter(({ state }) => state === "ready");
  const [failed] = all.filter(({ state }) => state === "failed");
  if (failed) say(`${failed.id} cannot paint: ${failed.failure}.`);
  if (!models.length) return;
  const select = find("model", HTMLSelectElement);
  select.replaceChildren(...models.map(({ id }) => make("option", { value: id }, id)));
  const wanted = new URLSearchParams(location.search).get("model");
  const known = models.some(({ id }) => id === wanted);
  if (wanted !== null && !known) say(`There is no model ${wanted} here; ${models[0]!.id} paints instead.`);
  select.value = known ? wanted! : models[0]!.id;
  select.disabled = false;
  const choose = () => {
    chosen = models.find(({ id }) => id === select.value)!;
    find("facts", HTMLElement).textContent = facts(chosen);
    find("main", HTMLElement).inert = false;
    for (const listener of listeners) listener(chosen);
  };
  select.addEventListener("change", choose);
  choose();
}

function facts(model: Model): string {
  const weights = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 2 });
  const told = [
    `${model.width} × ${model.height} ${model.channels === 1 ? "grey" : "colour"}`,
    `${weights.format(model.parameters!)} weights`,
    `${Math.round(model.state_bytes_per_image! / 1000)} kB of memory per image`,
  ];
  if (model.bits_per_dim !== null) told.push(`${model.bits_per_dim.toFixed(3)} bits/dim on test images`);
  return told.join(" · ");
}
