// The paper's equations, each beside the lines that compute it. The lines are cut out of the source files when the page
// is built, so that they are those of the server; a line that is gone is an error.

import attention from "../../../../kernels/attention/reference.py?raw";
import categorical from "../../../../kernels/categorical/reference.py?raw";
import features from "../../../../kernels/feature_maps.py?raw";
import logistics from "../../../../kernels/pixel_logistics/reference.py?raw";
import step from "../../../../kernels/step/reference.py?raw";
import { make } from "../base/elements";

interface Equation {
  number: string; // of the equation
  math: string[];
  file?: string; // none: no code computes it
  code?: string;
}

const mi = (name: string) => `<mi>${name}</mi>`;
const mo = (sign: string) => `<mo stretchy="false">${sign}</mo>`;
const row = (...parts: string[]) => `<mrow>${parts.join("")}</mrow>`;
const sub = (base: string, index: string) => `<msub>${base}${index}</msub>`;
const transposed = (base: string) => `<msup>${row(base)}${mi("T")}</msup>`;
const fraction = (above: string, below: string) => `<mfrac>${row(above)}${row(below)}</mfrac>`;
const sum = (index: string) => `<munder>${mo("∑")}${mi(index)}</munder>`;
const phi = (of: string) => mi("φ") + mo("(") + of + mo(")");
const at = (name: string, index = "i") => sub(mi(name), mi(index));
const zero = (name: string) => sub(mi(name), "<mn>0</mn>") + mo("=") + "<mn>0</mn>";
const before = (name: string) => sub(mi(name), row(mi("i"), mo("−"), "<mn>1</mn>"));
const through = (matrix: string) => at("x") + sub(mi("W"), mi(matrix));
const [query, key, value] = [phi(at("Q")), phi(at("K", "j")), at("V", "j")];
const output = `<msubsup>${mi("V")}${mi("i")}${mo("′")}</msubsup>${mo("=")}`;
const read = transposed(phi(through("Q")));

const EQUATIONS: Record<string, Equation> = {
  "4": {
    number: "4",
    math: [output + fraction(sum("j") + transposed(query) + key + value, sum("j") + transposed(query) + key)],
  },
  "5": {
    number: "5",
    math: [output + fraction(transposed(query) + sum("j") + key + transposed(value), transposed(query) + sum("j") + key)],
    file: "kernels/attention/reference.py",
    code: lines(attention, "query = phi_q[:, :, i]", "outputs.append"),
  },
  "6": {
    number: "6",
    math: [
      mo("(") + phi(mi("Q")) + transposed(phi(mi("K"))) + mo(")") + mi("V"),
      mo("=") + phi(mi("Q")) + mo("(") + transposed(phi(mi("K"))) + mi("V") + mo(")"),
    ],
  },
  "7": {
    number: "7",
    math: [phi(mi("x")) + mo("=") + mi("elu") + mo("(") + mi("x") + mo(")") + mo("+") + "<mn>1</mn>"],
    file: "kernels/feature_maps.py",
    code: lines(features, "return relu(x)"),
  },
  "16": {
    number: "16, 17",
    math: [zero("s") + mo(",") + '<mspace width="1em"/>' + zero("z")],
    file: "kernels/attention/reference.py",
    code: lines(attention, "s = phi_q.new_zeros", "z = phi_q.new_zeros"),
  },
  "18": {
    number: "18, 19",
    math: [
      at("s") + mo("=") + before("s") + mo("+") + phi(through("K")) + transposed(mo("(") + through("V") + mo(")")),
      at("z") + mo("=") + before("z") + mo("+") + phi(through("K")),
    ],
    file: "kernels/step/reference.py",
    code: lines(step, "key = phi_k[b, h]", "z[b, h] +="),
  },
  "20": {
    number: "20",
    math: [
      at("y") + mo("=") + at("f", "l") + mo("(") + fraction(read + at("s"), read + at("z")) + mo("+") + at("x") + mo(")"),
    ],
    file: "kernels/step/reference.py",
    code: lines(step, "numerator = query", "y[b, h] = "),
  },
};

const DRAW: Record<string, Equation> = {
  categorical: {
    number: "",
    math: [],
    file: "kernels/categorical/reference.py",
    code: lines(categorical, "cumulative = ", "picked = "),
  },
  logistics: {
    number: "",
    math: [],
    file: "kernels/pixel_logistics/reference.py",
    code: lines(logistics, "picked = pick(", "byte = ((drawn"),
  },
};

/** The lines from the one that begins with `from` to the next that begins with `to`, without their common indent. */
export function lines(source: string, from: string, to = from): string {
  const all = source.split("\n");
  const begins = (start: string) => (line: string) => line.trimStart().startsWith(start);
  const first = all.findIndex(begins(from));
  const last = all.findIndex((line, index) => index >= first && begins(to)(line));
  if (first < 0 || last < 0) throw new Error(`No lines from “${from}” to “${to}”.`);
  const found = all.slice(first, last + 1);
  const indent = Math.min(...found.map((line) => line.length - line.trimStart().length));
  return found.map((line) => line.slice(indent)).join("\n");
}

/** Fills the places of the equations in the page. */
export function showEquations(predicts: string): void {
  for (const place of document.querySelectorAll<HTMLElement>(".equation")) {
    const name = place.dataset.equation!;
    const equation = name === "draw" ? DRAW[predicts === "categorical" ? "categorical" : "logistics"]! : EQUATIONS[name]!;
    const equations = make("div", { className: "equations" });
    equations.innerHTML = equation.math.map((math) => `<math display="block">${row(math)}</math>`).join("");
    if (equation.number) equations.append(make("span", {}, `(${equation.number})`));
    place.replaceChildren(...(equation.math.length ? [equations] : []));
    if (!equation.file) continue;
    const code = make("pre", { tabIndex: 0 }, make("code", {}, equation.code!));
    code.setAttribute("role", "group");
    code.setAttribute("aria-label", `Lines of ${equation.file}`);
    place.append(make("div", {}, make("small", {}, equation.file), code));
  }
}
