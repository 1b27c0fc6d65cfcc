// Paint: the form, the gallery that fills as bytes arrive, and what can be done with the images afterwards.

import { bytesOf, type Model } from "../api/models";
import { copyText } from "../base/browser";
import { showCode } from "../code/dialog";
import { setUpFilm } from "../code/film";
import { json, type CodeRequest } from "../code/snippets";
import { find, onClick } from "../base/elements";
import { ANY } from "../jobs/class_choice";
import { JobRunner } from "../jobs/job_runner";
import { fromAddress, lettersIn, linkTo, PaintForm, toAddress, type PaintRequest } from "../jobs/paint_form";
import { array, columnsOf, png, save, sheet } from "../pictures/files";
import type { Recipe } from "../recipe/recipe";
import { onAddress, onModel, selectModel, servedModels } from "../shell/model";
import { clearNotice, showError, showNotice } from "../base/notice";
import { setUpMenu } from "../shell/menu";
import { goTo, isShown, onChosenTab } from "../shell/tabs";
import { view } from "../viewer/viewer";
import { Gallery } from "./gallery";
import { WriteField } from "./write_field";

const PAUSE = 250; // milliseconds from the choice of a class to its images

let model: Model; // the page is inert until there is one
let last: PaintRequest; // the one that the gallery shows
let runner: JobRunner;
let form: PaintForm;
let writing: WriteField;
let isChanging = false; // the model, for what is to be written

const narrow = matchMedia("(max-width: 52rem)");
let saved: { film: Blob; of: string } | undefined; // the last film, and its request

const gallery = new Gallery((index) => openViewer(index));

/** The pictures of the gallery that are finished. */
export const finishedPictures = () => gallery.pictures.filter(({ done }) => done);

export function setUpPaint(): void {
  runner = new JobRunner("paint");
  form = new PaintForm("", true);
  find("paint-form", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    clearNotice();
    paintForm();
  });
  writing = new WriteField(() => {
    clearNotice();
    write();
  });
  let pending: ReturnType<typeof setTimeout>;
  form.classes.onChange(() => {
    form.showGuidance(model);
    clearTimeout(pending); // arrow keys choose every class on their way
    pending = setTimeout(() => find("paint-form", HTMLFormElement).requestSubmit(), PAUSE);
  });
  onClick("again", () => paint(last));
  onClick("copy-link", () => void copyLink());
  onClick("save-sheet", async () => save(await sheetFile(), `${nameOfFile()}.png`));
  onClick("save-zip", async () => save(await archive(), `${nameOfFile()}.zip`));
  onClick("view-code", () => showCode(asked()));
  setUpFilm("save-film", "paint", () => [asked(), nameOfFile()], (film, request) => (saved = { film, of: json(request) }));
  setUpMenu("after-more");
  if (canShare()) offerShare();
  onClick("save-array", () => save(array(gallery.pictures), `${nameOfFile()}.npy`));

  onModel((selected, isChosen) => {
    model = selected;
    form.classes.fill(model.classes);
    writing.fill(model);
    foldForm();
    if (isChanging) return;
    if (!isChosen) return restore();
    fillDefaults();
    if (!isShown("paint")) return;
    if (last?.write && writing.canWrite && !writing.missing.length) write();
    else paintForm();
  });
  narrow.addEventListener("change", placeForm);
  onAddress(restore);
  onChosenTab(() => model && restore());
}

/** Folds the form where the model writes: then it is not the main one, and stands below the pictures, as on a phone. */
function foldForm(): void {
  const { canWrite } = writing;
  find("paint-fold", HTMLDetailsElement).open = !canWrite;
  find("paint-more", HTMLDetailsElement).open = canWrite; // one fold is enough
  placeForm();
}

function placeForm(): void {
  const before = writing.canWrite || narrow.matches ? "after" : "write-form";
  find(before, HTMLElement).after(find("paint-form", HTMLFormElement));
}

function fillDefaults(): void {
  const { guidance, temperature, best_of } = model.defaults;
  form.fill({ guidance, temperature, best_of });
  form.showGuidance(model);
}

/** Writes what is typed: with another model, and a notice, where this one lacks a character that the other has. */
function write(seed?: string, isNew = true): void {
  try {
    const [missing] = writing.missing;
    const other = missing && writing.otherOf(servedModels());
    if (other) {
      const { id } = model;
      isChanging = true;
      selectModel(other);
      isChanging = false;
      fillDefaults();
      showNotice(`${id} has no ${missing}: ${other.id} writes it.`);
    }
    paint(form.readWriting(writing.read(), seed), isNew);
  } catch (error) {
    showError(error, "paint");
  }
}

/** Shows what the address says, if the tab is shown and the gallery does not show it already. */
function restore(): void {
  if (!isShown("paint") || (last && location.search === `?${toAddress(last)}`)) return;
  const { guidance, temperature, best_of: picky } = model.defaults;
  const fields = new URLSearchParams(location.search);
  const asked = { guidance, temperature, best_of: picky, ...fromAddress(fields) };
  const text = fields.get("write");
  const isBare = !["seed", "class", "n"].some((name) => fields.has(name));
  const isWritten = text !== null || (isBare && writing.canWrite && !writing.missing.length);
  const { temperature: at, best_of } = asked;
  const isGuided = fields.has("guidance");
  const style = { guidance: isGuided ? asked.guidance : guidance, temperature: at, best_of };
  form.fill(isWritten ? style : asked); // of what is written no seed and class
  form.showGuidance(model);
  if (text !== null) writing.show(text);
  if (isWritten) write(asked.seed, false);
  else paintForm(false);
}

/** `isNew`: asked for by the user, and an entry of the history. */
function paintForm(isNew = true): void {
  try {
    paint(form.read(), isNew);
  } catch (error) {
    showError(error);
  }
}

function paint(request: PaintRequest, isNew = true): void {
  last = request;
  goTo(linkTo(request), isNew);
  gallery.reset(request.n, model, request.write, request.class === ANY);
  if (isNew) runner.follow();
  find("after", HTMLElement).hidden = true;
  const { write, ...fields } = request;
  void runner.runOnServer([{ type: "generate", ...fields, ...(write && { class: lettersIn(write) }) }], request.n, request.n * bytesOf(model), {
    frame: ({ index, first, bytes }) => gallery.paint(index, first, bytes),
    image: (index, finished) => gallery.finish(index, finished),
    ended: () => {
      gallery.draw();
      find("after", HTMLElement).hidden = !gallery.pictures.some(({ painted }) => painted);
    },
  });
}

/** The request of the gallery as the API has it: what the form leaves open is said. */
function asked(): CodeRequest {
  const { class: name = "none", guidance = 1, write, ...of } = last;
  const fields = model.defaults.best_of > 1 ? { ...of, best_of: of.best_of ?? 1 } : of;
  if (write) return { ...fields, class: lettersIn(write) as unknown as string, guidance }; // JSON, as every language has a list
  return model.classes.length ? { ...fields, class: name, guidance } : fields;
}

/** A PNG of all images, or of what is written as it is seen. */
async function sheetFile(): Promise<Blob> {
  const { pictures, tiles } = gallery;
  const { write } = last;
  const scale = Number(find("sheet-scale", HTMLSelectElement).value);
  const file = await png(write ? gallery.copy(scale) : sheet(pictures, scale));
  const { ofSheet, recipeOf, withRecipe } = await import("../recipe/lazy");
  const recipe = pictures.every(({ done }) => done) ? recipeOf(model, last) : undefined;
  if (!recipe) return file;
  const names = tiles.map(({ finished }) => finished?.class ?? null);
  const ofFile = write ? { ...recipe, write: write.join("") } : ofSheet(recipe, names, columnsOf(names.length), scale);
  return withRecipe(file, ofFile);
}

/** An archive with a PNG of each finished image. */
async function archive(): Promise<Blob> {
  const { withRecipe, zip } = await import("../recipe/lazy");
  const name = nameOfFile();
  const files = gallery.tiles.map(async ({ picture }, index) => {
    const file = withRecipe(await png(picture.canvas), await recipeOfImage(index));
    return { name: `${name}-image-${index}.png`, bytes: new Uint8Array(await file.arrayBuffer()) };
  });
  return zip(await Promise.all(files.filter((_, index) => gallery.pictures[index]!.done)));
}

async function recipeOfImage(index: number): Promise<Recipe | undefined> {
  const { picture, finished } = gallery.tiles[index]!;
  const { ofImage, recipeOf } = await import("../recipe/lazy");
  const recipe = picture.done ? recipeOf(model, last) : undefined;
  return recipe && ofImage(recipe, index, finished?.class ?? null);
}

function openViewer(index: number): void {
  const { model, n, seed, temperature, guidance } = last;
  const guided = guidance === undefined ? "" : ` · guidance ${guidance}`;
  const viewed = gallery.tiles.map(({ picture, finished, button }, at) => {
    const name = finished?.class ?? last.class;
    const ofClass = name === undefined ? "" : `class ${name} · `;
    const bits = finished?.bitsPerDim == null ? "not finished" : `${finished.bitsPerDim.toFixed(3)} bits/dim`;
    return {
      picture,
      title: `Image ${at + 1} of ${n}`,
      figures: `${model} · ${ofClass}seed ${seed} · temperature ${temperature}${guided} · ${bits}`,
      model,
      file: `${nameOfFile()}-image-${at}`,
      opener: button,
      recipe: () => recipeOfImage(at),
    };
  });
  view(viewed, index);
}

/** The name of a file of the gallery's images, without the ending. */
function nameOfFile(): string {
  const { model, seed, class: name, write } = last;
  if (write) return `${model}-${write.join("").replaceAll(" ", "-")}-seed-${seed}`;
  return name === undefined ? `${model}-seed-${seed}` : `${model}-class-${name}-seed-${seed}`;
}

/** Offers to share the picture; the link alone is then in the menu. */
function offerShare(): void {
  find("share", HTMLButtonElement).hidden = false;
  find("again", HTMLButtonElement).after(find("copy-link", HTMLButtonElement));
  onClick("share", () => void share());
}

/** Whether the browser can hand a picture to other programs. */
function canShare(): boolean {
  return Boolean(navigator.canShare?.({ files: [new File([""], "a.png", { type: "image/png" })] }));
}

/** Hands over the film, if it has been saved, or the sheet, with the address that paints it again. */
async function share(): Promise<void> {
  const film = saved?.of === json(asked()) ? saved.film : undefined;
  const file = film ?? (await sheetFile());
  const files = [new File([file], `${nameOfFile()}.${film ? "gif" : "png"}`, { type: file.type })];
  const url = location.protocol === "file:" ? {} : { url: linkTo(last) }; // a file's address says nothing to others
  try {
    await navigator.share({ files, title: document.title, ...url });
  } catch (error) {
    if ((error as Error).name !== "AbortError") await copyLink(); // else the user has closed the list of programs
  }
}

async function copyLink(): Promise<void> {
  const share = find("share", HTMLButtonElement);
  const [button, label] = share.hidden ? [find("copy-link", HTMLButtonElement), "Copy link"] : [share, "Share"]; // one is seen
  if (!(await copyText(linkTo(last)))) {
    return showError("The browser does not allow copying. The address of this page is the link.");
  }
  runner.showStatus("Link copied.");
  button.textContent = "Link copied";
  setTimeout(() => (button.textContent = label), 2000);
}
