// "What is it?" in the viewer: the probability of each class and how unusual the picture is, asked for while it is open.

import { call } from "../api/http";
import type { Model } from "../api/models";
import { find, make, setText } from "../base/elements";
import { base64 } from "../pictures/files";
import type { Picture } from "../pictures/picture";
import { onModel } from "../shell/model";

const MAX_CLASSES = 10;
const READERS: Record<string, string> = {
  head: "A classifier trained on this model's features names the class.",
  bits: "The model names the class for which these pixels are likeliest.",
};

/** A picture, and the id of the model that painted it. */
export interface Painted {
  picture: Picture;
  model: string;
}

export interface ClassifiedImage {
  class: string | null; // of no class: unlike what the model knows
  posterior: Record<string, number>;
  typical: boolean | null;
  tail_probability: number | null;
}

let model: Model | undefined;
let current: Painted | undefined; // what the answer is about
onModel((selected) => (model = selected));

/** Asks what a picture is, if the user has opened the question, and the model that painted it knows classes. */
export async function showWhatItIs(viewed: Painted): Promise<void> {
  const box = find("what", HTMLDetailsElement);
  box.hidden = model?.id !== viewed.model || !model.classes.length || !viewed.picture.done;
  current = viewed;
  find("posterior", HTMLElement).replaceChildren();
  setText("unusual", "");
  if (box.hidden || !box.open) return;
  setText("unusual", "Asking the model.");
  try {
    const image = await base64(viewed.picture.canvas);
    const answer = await (await call("v1/images/classifications", { model: viewed.model, image })).json();
    if (current === viewed) showAnswer(answer.data[0], answer.read_by);
  } catch (error) {
    if (current === viewed) setText("unusual", (error as Error).message);
  }
}

export const UNKNOWN = "Unlike what the model knows: it names no class.";

function showAnswer(image: ClassifiedImage, readBy: string): void {
  const { posterior, typical, tail_probability: tail } = image;
  const all = image.class === null ? [] : Object.entries(posterior);
  const shown = all.length <= MAX_CLASSES ? all : all.sort((a, b) => b[1] - a[1]).slice(0, MAX_CLASSES);
  find("posterior", HTMLElement).replaceChildren(
    ...shown.map(([name, probability]) => {
      const bar = make("meter", { value: probability, ariaLabel: `Probability of ${name}` });
      return make("li", {}, make("span", {}, name), bar, make("span", { className: "figures" }, percent(probability)));
    }),
  );
  const sentences = typical === null || tail === null ? [] : [unusual(image, tail)];
  if (all.length) sentences.unshift(READERS[readBy] ?? "");
  setText("unusual", sentences.join(" "));
}

export const percent = (probability: number): string => `${(100 * probability).toFixed(1)} %`;

function unusual(image: ClassifiedImage, tail: number): string {
  const share = `${(100 * tail).toLocaleString("en", { maximumSignificantDigits: 2 })} %`;
  if (image.typical) return `A usual picture for this model: up to ${share} of its test images are as unusual.`;
  if (image.class !== null) return `The picture has noise: at most ${share} of the test images are as unusual.`;
  return `Unlike what the model knows: at most ${share} of its test images are as unusual. It names no class.`;
}
