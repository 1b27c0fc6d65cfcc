// Tabs as the ARIA pattern describes them, with arrow keys, Home and End. The URL's fragment names the selected one, and
// may have details of what it shows: #complete&rows=14. Each selection is an entry of the browser's history.

const tabs = [...document.querySelectorAll<HTMLButtonElement>("[role=tab]")];
const nameOf = (tab: HTMLElement) => tab.id.replace(/^tab-/, "");
const details = new Map<string, string>(); // of each tab, as its last address had them

/** Shows the panel of that name, or the first. `isOfAddress`: Back, Forward or a link asks for it; who follows the model hears
 * of that afterwards. */
export function showTab(name: string, focus = false, isOfAddress = false): void {
  const chosen = tabs.find((tab) => nameOf(tab) === name) ?? tabs[0]!;
  for (const tab of tabs) {
    const isSelected = tab === chosen;
    tab.setAttribute("aria-selected", String(isSelected));
    tab.tabIndex = isSelected ? 0 : -1;
    document.getElementById(nameOf(tab))!.hidden = !isSelected;
  }
  if (focus) chosen.focus();
  window.dispatchEvent(new CustomEvent("tab", { detail: isOfAddress }));
}

export const isShown = (name: string): boolean => !document.getElementById(name)!.hidden;

/** The name of the address's tab, and what it says besides. */
function inAddress(): [tab: string, details: string] {
  const [, tab, details] = /^#?([^&]*)&?(.*)$/.exec(location.hash)!;
  return [tab!, details!];
}

/** What the address says besides the name of that tab; empty if it is the address of another one. */
export function detailsOf(name: string): URLSearchParams {
  const [tab, ofTab] = inAddress();
  return new URLSearchParams(tab === name ? ofTab : "");
}

/** The URL, relative to the page's, of a tab with these details. */
export function addressOf(name: string, fields: URLSearchParams): string {
  details.set(name, String(fields));
  return fields.size ? `#${name}&${fields}` : `#${name}`;
}

/** Writes an address into the URL: as a new entry of the history, or in place of the present one. */
export function goTo(address: string, isNew: boolean): void {
  if (new URL(address, location.href).href === location.href) return;
  try {
    if (isNew) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  } catch {
    // Safari allows a hundred in half a minute
  }
}

export function setUpTabs(): void {
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => selectTab(nameOf(tab)));
    tab.addEventListener("keydown", (event) => {
      const last = tabs.length - 1;
      const next = { ArrowRight: at + 1, ArrowLeft: at + last, Home: 0, End: last }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      selectTab(nameOf(tabs[next % tabs.length]!), true);
    });
  });
  window.addEventListener("popstate", () => showAddress(true));
  showAddress(false);
}

/** Shows the tab of the address. */
function showAddress(isOfAddress: boolean): void {
  const [name, ofTab] = inAddress();
  details.set(name, ofTab);
  showTab(name, false, isOfAddress);
}

/** Calls `listener` when the user shows a tab, and not when the address does. */
export function onChosenTab(listener: () => void): void {
  window.addEventListener("tab", (event) => (event as CustomEvent<boolean>).detail || listener());
}

/** Shows a tab, as a click on it does. */
export function selectTab(name: string, focus = false): void {
  const fields = details.get(name);
  goTo(fields ? `#${name}&${fields}` : `#${name}`, true);
  showTab(name, focus);
}
