// Starts the page: theme, then the tabs, then the models of the server.

import "./style/base.css";
import "./style/controls.css";
import "./style/paint.css";
import "./style/complete.css";
import { call } from "./api/http";
import { allModels } from "./api/models";
import { StoredText } from "./base/browser";
import { setUpCode } from "./code/dialog";
import { completeThis, drawnPicture, setUpComplete } from "./complete/panel";
import { setUpDevice } from "./device/panel";
import { find } from "./base/elements";
import { finishedPictures, setUpPaint } from "./paint/panel";
import { setUpModels } from "./shell/model";
import { showError } from "./base/notice";
import { isShown, selectTab, setUpTabs } from "./shell/tabs";
import { setUpViewer } from "./viewer/viewer";

const theme = new StoredText(() => localStorage, "scanline-theme");

/** Light or dark: the system's setting until the button is pressed, then the stored choice. */
function setUpTheme(): void {
  const root = document.documentElement;
  const button = find("theme", HTMLButtonElement);
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => button.setAttribute("aria-label", isDark() ? "Use the light theme" : "Use the dark theme");

  const stored = theme.read();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  label();
  system.addEventListener("change", label);
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    theme.write(root.dataset.theme);
    label();
  });
}

/** Loads the code of a tab when it is first opened: the other tabs need none of it. If that fails, it is loaded once more
 * when the server answers. */
function setUpLater(tab: string, load: () => Promise<void>): void {
  let opened: Promise<void> | undefined;
  window.addEventListener("tab", () => {
    if (!isShown(tab)) return;
    opened ??= load().catch(async () => {
      await call("v1/models");
      await load();
    });
    opened.catch((error) => {
      opened = undefined;
      showError(`This tab could not be loaded; reload the page. ${error}`, tab);
    });
  });
}

setUpTheme();
setUpPaint();
setUpComplete(finishedPictures);
setUpDevice();
setUpLater("how", () => import("./how/panel").then((panel) => panel.setUpHow()));
const sources = { gallery: finishedPictures, drawing: drawnPicture };
setUpLater("compress", () => import("./compress/panel").then((panel) => panel.setUpCompress(sources)));
setUpCode();
setUpViewer((picture) => {
  completeThis(picture);
  selectTab("complete", true);
});
setUpTabs();
allModels().then(setUpModels).catch(showError);
