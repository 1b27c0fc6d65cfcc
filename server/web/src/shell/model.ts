// The model that all tabs use: the select element at the top, and one line of facts about the model at the bottom.

import type { Model } from "../api/models";
import { find, make, setText } from "../base/elements";
import { showNotice } from "../base/notice";
import { detailsOf, goTo } from "./tabs";

const TABS_WITH_MODEL = ["complete", "compress", "how"]; // in their own part of the address

type Listener = (model: Model, isChosen: boolean) => void;

const listeners: Listener[] = [];
const addressListeners: (() => void)[] = [];
let selected: Model | undefined;
let served: Model[] = []; // those that are ready

/** Calls `listener` with the selected model, as soon as there is one, and after each change. `isChosen`: by the user,
 * and not by the address. */
export function onModel(listener: Listener): void {
  listeners.push(listener);
  if (selected) listener(selected, false);
}

/** Calls `listener` when Back, Forward or a link has changed the address but not the model. */
export function onAddress(listener: () => void): void {
  addressListeners.push(listener);
}

export const servedModels = (): Model[] => served;

/** Selects a model for a tab that changes to it; the address says nothing new yet. */
export function selectModel({ id }: Model): void {
  find("model", HTMLSelectElement).value = id;
  change(false);
}

/** The name of the model in the address: of its tab, otherwise of the gallery. */
function nameInAddress(): string | null {
  const named = TABS_WITH_MODEL.map((tab) => detailsOf(tab).get("model")).find((name) => name !== null);
  return named ?? new URLSearchParams(location.search).get("model");
}

/** Fills the select element; selects the model of the address, otherwise the first that is ready. */
export function setUpModels(all: Model[]): void {
  const models = all.filter(({ state }) => state === "ready");
  const failed = all.find(({ state }) => state === "failed");
  if (failed) showNotice(`${failed.id} could not be loaded: ${failed.failure}.`);
  served = models;
  if (!models.length) return;
  const select = find("model", HTMLSelectElement);
  select.replaceChildren(...models.map(({ id }) => make("option", { value: id }, id)));
  const wanted = nameInAddress();
  const isKnown = models.some(({ id }) => id === wanted);
  if (wanted !== null && !isKnown) showNotice(`There is no model ${wanted}; using ${models[0]!.id}.`);
  select.value = isKnown ? wanted! : models[0]!.id;
  select.disabled = false;
  select.addEventListener("change", () => change(true));
  window.addEventListener("popstate", () => {
    const name = nameInAddress();
    if (name !== select.value && models.some(({ id }) => id === name)) {
      select.value = name!;
      change(false);
    } else {
      for (const listener of addressListeners) listener();
    }
  });
  change(false);
}

function change(isChosen: boolean): void {
  const { value } = find("model", HTMLSelectElement);
  if (isChosen) goTo(`?model=${encodeURIComponent(value)}${location.hash}`, false); // the gallery was another model's
  selected = served.find(({ id }) => id === value)!;
  setText("facts", facts(selected));
  find("main", HTMLElement).inert = false;
  for (const listener of listeners) listener(selected, isChosen);
}

/** Two digits of a number: 1.8M. Intl, which writes the same, takes milliseconds while the page loads. */
function compact(number: number): string {
  const power = number < 1e3 ? 0 : number < 1e6 ? 1 : 2;
  return `${Number((number / 1e3 ** power).toPrecision(2))}${["", "K", "M"][power]}`;
}

function facts(model: Model): string {
  const parts = [
    `${model.id}: ${model.width} × ${model.height} ${model.channels === 1 ? "grey" : "colour"}`,
    `${compact(model.parameters!)} parameters`,
    `${Math.round(model.state_bytes_per_image! / 1000)} kB of state per image`,
  ];
  if (model.bits_per_dim !== null) parts.push(`${model.bits_per_dim.toFixed(3)} bits/dim on test images`);
  return parts.join(" · ");
}
