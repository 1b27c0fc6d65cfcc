// Tabs as the ARIA pattern has them: arrow keys, Home and End; the chosen one stands in the address after #.

const tabs = [...document.querySelectorAll<HTMLButtonElement>("[role=tab]")];
const name = (tab: HTMLElement) => tab.id.replace(/^tab-/, "");
const visible = () => tabs.filter((tab) => !tab.hidden);

/** Shows the panel of that name, the first where there is none. */
export function showTab(wanted: string, focus = false): void {
  const chosen = visible().find((tab) => name(tab) === wanted) ?? visible()[0]!;
  for (const tab of tabs) {
    const selected = tab === chosen;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
    document.getElementById(name(tab))!.hidden = !selected;
  }
  if (focus) chosen.focus();
  window.dispatchEvent(new CustomEvent("tab", { detail: name(chosen) }));
}

export const isShown = (wanted: string): boolean => !document.getElementById(wanted)!.hidden;

export function setUpTabs(): void {
  for (const tab of tabs) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const among = visible();
      const at = among.indexOf(tab);
      const next = { ArrowRight: at + 1, ArrowLeft: at - 1 + among.length, Home: 0, End: among.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      choose(among[next % among.length]!, true);
    });
  }
  window.addEventListener("hashchange", () => showTab(location.hash.slice(1)));
  showTab(location.hash.slice(1));
}

function choose(tab: HTMLButtonElement, focus = false): void {
  history.replaceState(null, "", `#${name(tab)}`);
  showTab(name(tab), focus);
}
