// The guidance slider of a form, in #<id>-field: hidden where the model's images cannot be guided, disabled where the form
// asks for something that excludes guidance. The field's title says what it does, or why it is disabled.

import type { Model } from "../api/models";
import { find } from "../base/elements";
import { Slider } from "./slider";

const USEFUL =
  "Above 1, images are more typical of their class and less varied. An image then takes two slots: one with the class, " +
  "one without.";
const NEEDS_CLASS = "Guidance draws images towards a class: choose one to use it.";
const NEEDS_ONE_PARTICLE = "Guidance and particles cannot be combined: choose 1 particle to use it.";

/** What a form asks for besides. */
export interface Beside {
  class: string | undefined; // none without it
  particles: number;
}

/** Why guidance cannot be used; undefined where it can. */
export function reasonAgainst(beside: Beside): string | undefined {
  if (beside.class === undefined) return NEEDS_CLASS;
  return beside.particles > 1 ? NEEDS_ONE_PARTICLE : undefined;
}

export class GuidanceSlider {
  private readonly field: HTMLElement;
  private readonly slider: Slider;

  constructor(id: string) {
    this.field = find(`${id}-field`, HTMLElement);
    this.slider = new Slider(id, "The guidance must be from 1 to 4, in steps of 0.25");
  }

  /** Shows whether guidance can be used. */
  show(model: Model, beside: Beside): void {
    const reason = reasonAgainst(beside);
    this.field.hidden = model.max_guidance === null;
    this.field.title = reason ?? USEFUL;
    this.slider.input.disabled = reason !== undefined;
  }

  fill(guidance: number): void {
    this.slider.fill(guidance);
  }

  /** The guidance, undefined where there is none; `hasClass`: whatever class the form shows. Throws FormError as a slider
   * does. */
  read(hasClass = false): number | undefined {
    if ((this.slider.input.disabled && !hasClass) || this.field.hidden) return undefined;
    const guidance = this.slider.read();
    return guidance === 1 ? undefined : guidance;
  }
}
