// "What is it?" in the viewer: the probability of each class and how unusual the picture is, asked for while it is open.

import { call } from "../api/http";
import type { Model } from "../api/models";
import { find, make, setText } from "../elements";
import { base64 } from "../pictures/files";
import type { Picture } from "../pictures/picture";
import { onModel } from "../shell/model";

const MAX_CLASSES = 10;

/** A picture, and the id of the model that painted it. */
export interface Painted {
  picture: Picture;
  model: string;
}

interface ClassifiedImage {
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
    if (current === viewed) showAnswer(answer.data[0]);
  } catch (error) {
    if (current === viewed) setText("unusual", (error as Error).message);
  }
}

function showAnswer({ posterior, typical, tail_probability: tail }: ClassifiedImage): void {
  const all = Object.entries(posterior);
  const shown = all.length <= MAX_CLASSES ? all : all.sort((a, b) => b[1] - a[1]).slice(0, MAX_CLASSES);
  find("posterior", HTMLElement).replaceChildren(
    ...shown.map(([name, probability]) => {
      const percent = `${(100 * probability).toFixed(1)} %`;
      const bar = make("meter", { value: probability, ariaLabel: `Probability of ${name}` });
      return make("li", {}, make("span", {}, name), bar, make("span", { className: "figures" }, percent));
    }),
  );
  setText("unusual", typical === null || tail === null ? "" : unusual(typical, tail));
}

function unusual(typical: boolean, tail: number): string {
  const share = `${(100 * tail).toLocaleString("en", { maximumSignificantDigits: 2 })} %`;
  return typical
    ? `A usual picture for this model: up to ${share} of its test images are as unusual.`
    : `Unlike the images that the model was tested on: at most ${share} of them are as unusual. Do not trust the answer.`;
}
