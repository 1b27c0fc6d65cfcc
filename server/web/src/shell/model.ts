// The model that all tabs use: the select element at the top, and one line of facts about the model.

import type { Model } from "../api/models";
import { find, make, setText } from "../elements";
import { showNotice } from "./notice";

const listeners: ((model: Model) => void)[] = [];
let selected: Model | undefined;

/** Calls `listener` with the selected model, as soon as there is one, and after each change. */
export function onModel(listener: (model: Model) => void): void {
  listeners.push(listener);
  if (selected) listener(selected);
}

/** Fills the select element; selects the model of `?model=`, otherwise the first that is ready. */
export function setUpModels(all: Model[]): void {
  const models = all.filter(({ state }) => state === "ready");
  const failed = all.find(({ state }) => state === "failed");
  if (failed) showNotice(`${failed.id} could not be loaded: ${failed.failure}.`);
  if (!models.length) return;
  const select = find("model", HTMLSelectElement);
  select.replaceChildren(...models.map(({ id }) => make("option", { value: id }, id)));
  const wanted = new URLSearchParams(location.search).get("model");
  const isKnown = models.some(({ id }) => id === wanted);
  if (wanted !== null && !isKnown) showNotice(`There is no model ${wanted}; using ${models[0]!.id}.`);
  select.value = isKnown ? wanted! : models[0]!.id;
  select.disabled = false;
  const change = () => {
    selected = models.find(({ id }) => id === select.value)!;
    setText("facts", facts(selected));
    find("main", HTMLElement).inert = false;
    for (const listener of listeners) listener(selected);
  };
  select.addEventListener("change", change);
  change();
}

function facts(model: Model): string {
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 2 });
  const parts = [
    `${model.width} × ${model.height} ${model.channels === 1 ? "grey" : "colour"}`,
    `${compact.format(model.parameters!)} parameters`,
    `${Math.round(model.state_bytes_per_image! / 1000)} kB of state per image`,
  ];
  if (model.bits_per_dim !== null) parts.push(`${model.bits_per_dim.toFixed(3)} bits/dim on test images`);
  return parts.join(" · ");
}
