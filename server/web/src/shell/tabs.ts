// Tabs as the ARIA pattern describes them, with arrow keys, Home and End; the URL's fragment names the selected one.

const tabs = [...document.querySelectorAll<HTMLButtonElement>("[role=tab]")];
const nameOf = (tab: HTMLElement) => tab.id.replace(/^tab-/, "");

/** Shows the panel of that name, or the first. */
export function showTab(name: string, focus = false): void {
  const chosen = tabs.find((tab) => nameOf(tab) === name) ?? tabs[0]!;
  for (const tab of tabs) {
    const isSelected = tab === chosen;
    tab.setAttribute("aria-selected", String(isSelected));
    tab.tabIndex = isSelected ? 0 : -1;
    document.getElementById(nameOf(tab))!.hidden = !isSelected;
  }
  if (focus) chosen.focus();
  window.dispatchEvent(new CustomEvent("tab"));
}

export const isShown = (name: string): boolean => !document.getElementById(name)!.hidden;

export function setUpTabs(): void {
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", (event) => {
      const last = tabs.length - 1;
      const next = { ArrowRight: at + 1, ArrowLeft: at + last, Home: 0, End: last }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      select(tabs[next % tabs.length]!, true);
    });
  });
  window.addEventListener("hashchange", () => showTab(location.hash.slice(1)));
  showTab(location.hash.slice(1));
}

function select(tab: HTMLButtonElement, focus = false): void {
  history.replaceState(null, "", `#${nameOf(tab)}`);
  showTab(nameOf(tab), focus);
}
