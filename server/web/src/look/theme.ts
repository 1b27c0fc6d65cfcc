// Light or dark: the system's choice until the button says otherwise, then the visitor's.

import { find } from "../elements";

const KEPT = "scanline-theme";
const root = document.documentElement;

export function setUpTheme(): void {
  const button = find("theme", HTMLButtonElement);
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => button.setAttribute("aria-label", isDark() ? "Use the light theme" : "Use the dark theme");

  const kept = localStorage.getItem(KEPT);
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  label();
  system.addEventListener("change", label);
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem(KEPT, root.dataset.theme);
    label();
  });
}
