// A menu, which is a fold: it closes once something in it is chosen, or something beside it, and with Escape.

import { find } from "../base/elements";

export function setUpMenu(id: string): void {
  const menu = find(id, HTMLDetailsElement);
  const close = () => {
    menu.querySelector("summary")!.focus(); // before a dialog opens, which gives the focus back
    menu.open = false;
  };
  const isButton = ({ target }: Event) => target instanceof HTMLButtonElement;
  menu.addEventListener("click", (event) => isButton(event) && close(), { capture: true });
  menu.addEventListener("change", close);
  menu.addEventListener("keydown", ({ key }) => key === "Escape" && close());
  for (const event of ["pointerdown", "focusin"]) {
    document.addEventListener(event, ({ target }) => {
      if (!menu.contains(target as Node)) menu.open = false;
    });
  }
}
