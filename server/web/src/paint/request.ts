// What to paint, read from the form or from a link: the same request paints the same images.

import { find } from "../elements";
import { ClassChoice } from "../jobs/class_choice";
import { readCount, readSeed, readTemperature } from "../jobs/form_fields";
import { GuidanceSlider } from "../jobs/guidance";

export interface GenerateRequest {
  model: string;
  n: number;
  seed: string; // up to 2^63 - 1, more than a number holds exactly
  temperature: number;
  class?: string | undefined; // "any": one for each image, drawn; none without it
  guidance?: number | undefined; // 1, which is none, without it
}

const MOST_IMAGES = 1024;
export const paintClass = new ClassChoice("paint-class", true);
export const paintGuidance = new GuidanceSlider("guidance");

export function readForm(): GenerateRequest {
  return {
    model: find("model", HTMLSelectElement).value,
    n: readCount(find("count", HTMLInputElement), MOST_IMAGES),
    seed: readSeed(find("seed", HTMLInputElement)),
    temperature: readTemperature(find("temperature", HTMLInputElement)),
    class: paintClass.read(),
    guidance: paintGuidance.read(),
  };
}

/** Writes the fields of a link into the form, invalid ones too: `readForm` reports them. Links have a seed, and one
 * without a class asks for none. */
export function fillForm({ n, seed, temperature, class: name, guidance }: Partial<GenerateRequest>): void {
  if (n !== undefined) find("count", HTMLInputElement).value = Number.isFinite(n) ? String(n) : "";
  if (seed !== undefined) find("seed", HTMLInputElement).value = seed;
  const slider = find("temperature", HTMLInputElement);
  if (temperature !== undefined) slider.value = String(temperature);
  slider.dispatchEvent(new Event("input"));
  if (temperature !== undefined && Number(slider.value) !== temperature) slider.dataset.invalid = String(temperature);
  if (seed !== undefined) paintClass.choose(name);
  paintGuidance.fill(guidance ?? 1);
}

/** The request in the page's URL; empty if it has no seed. */
export function readLink(): Partial<GenerateRequest> {
  const query = new URLSearchParams(location.search);
  const seed = query.get("seed");
  if (seed === null) return {};
  const number = (name: string) => (query.has(name) ? { [name]: Number(query.get(name) || NaN) } : {});
  const numbers = { ...number("n"), ...number("temperature"), guidance: 1, ...number("guidance") };
  return { seed, ...numbers, class: query.get("class") ?? undefined };
}

/** The part of the URL that paints this request again. */
export function searchOf({ model, seed, temperature, n, class: name, guidance }: GenerateRequest): string {
  const query = new URLSearchParams({ model, seed, temperature: String(temperature), n: String(n) });
  if (name !== undefined) query.set("class", name);
  if (guidance !== undefined) query.set("guidance", String(guidance));
  return `?${query}`;
}

/** The URL, without its host, that paints this request again. */
export const linkTo = (request: GenerateRequest): string => `${location.pathname}${searchOf(request)}#paint`;

/** The name of a file of its images, without the ending. */
export function nameOfFile({ model, seed, class: name }: GenerateRequest): string {
  return name === undefined ? `${model}-seed-${seed}` : `${model}-class-${name}-seed-${seed}`;
}
