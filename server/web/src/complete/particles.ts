// The particles of a completion: how many, and whether completions with one particle are painted beside them. More than
// one makes a difference only where a known pixel follows a hidden one.

import { find, setText } from "../base/elements";
import type { Occlusion } from "../pictures/occlusion";

const USEFUL =
  "Each completion is painted by that many particles side by side. Where the known pixels after a gap make a particle " +
  "unlikely, a copy of a likelier one takes its place, so that strokes join on both sides.";
const USELESS = "More particles help only where known pixels follow hidden ones: hide some with the brush.";

/** What the page shows of the completions that have the same number of particles. */
export interface ParticlesRow {
  particles: number;
  label: string; // empty where there is one row only
}

export class ParticlesChoice {
  private readonly box = find("particles", HTMLFieldSetElement);

  /** How many particles the form asks for. */
  get count(): number {
    if (this.box.disabled) return 1;
    return Number(this.box.querySelector<HTMLInputElement>("input[name=particles]:checked")!.value);
  }

  /** Chooses a number, if it is one of the form's. */
  choose(count: number, isCompared: boolean): void {
    const radio = this.box.querySelector<HTMLInputElement>(`input[value="${count}"]`);
    if (radio) radio.checked = true;
    find("particles-compare", HTMLInputElement).checked = isCompared;
  }

  /** Calls `listener` when the user chooses another number. */
  onChange(listener: () => void): void {
    this.box.addEventListener("change", listener);
  }

  /** Enables the choice where it makes a difference. */
  show(occlusion: Occlusion): void {
    this.box.disabled = !occlusion.isKnownAfterHidden;
    setText("particles-hint", this.box.disabled ? USELESS : USEFUL);
  }

  /** The rows of completions that the form asks for. */
  read(): ParticlesRow[] {
    const particles = this.count;
    const isCompared = find("particles-compare", HTMLInputElement).checked && particles > 1;
    if (!isCompared) return [{ particles, label: "" }];
    return [1, particles].map((count) => ({ particles: count, label: count === 1 ? "1 particle" : `${count} particles` }));
  }
}
