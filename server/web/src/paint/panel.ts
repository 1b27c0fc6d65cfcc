// Paint: a form, a gallery that fills as the bytes come, and what can be done with the images afterwards.

import { begin, type Started } from "../api/stream";
import { bytesOf, type Model } from "../api/models";
import { find } from "../elements";
import { say, sayError, withdraw } from "../look/notice";
import { isShown } from "../look/tabs";
import { whenModel } from "../look/model";
import { array, save, sheet } from "../pictures/files";
import { Gallery } from "./gallery";
import { Meter } from "./meter";
import { Mistake } from "./mistake";
import { showImage } from "./viewer";
import { drawSeed, fillForm, linkTo, readForm, readLink, type Wish } from "./wish";

let model: Model; // until there is one, the page is inert
let last: Wish | undefined; // with its seed
let stop: (() => void) | undefined; // of what is being painted
let meter: Meter | undefined;

const gallery = new Gallery((index) => showImage(gallery.tiles, index, last!));

/** The images of the gallery that are done. */
export const finished = () => gallery.pictures.filter(({ done }) => done);

export function setUpPaint(): void {
  const form = find("paint-form", HTMLFormElement);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    withdraw();
    fromForm();
  });
  const temperature = find("temperature", HTMLInputElement);
  const shown = find("temperature-shown", HTMLOutputElement);
  temperature.addEventListener("input", () => {
    delete temperature.dataset.wanted;
    shown.value = Number(temperature.value).toFixed(2);
  });
  find("stop", HTMLButtonElement).addEventListener("click", () => stop?.());
  find("again", HTMLButtonElement).addEventListener("click", () => last && paint(last));
  find("save-sheet", HTMLButtonElement).addEventListener("click", async () =>
    save(await sheet(gallery.pictures), `${fileName()}.png`),
  );
  find("save-array", HTMLButtonElement).addEventListener("click", () =>
    save(array(gallery.pictures), `${fileName()}.npy`),
  );
  find("copy-link", HTMLButtonElement).addEventListener("click", () => void copyLink());

  let first = true;
  whenModel((chosen) => {
    model = chosen;
    if (first) fillForm(readLink() ?? {});
    if (isShown("paint")) fromForm();
    first = false;
  });
}

function fromForm(): void {
  try {
    const wish = readForm();
    paint({ ...wish, seed: wish.seed || drawSeed() });
  } catch (error) {
    if (!(error instanceof Mistake)) throw error;
    error.show();
  }
}

function paint(wish: Wish): void {
  stop?.();
  last = wish;
  const running = (meter = new Meter(wish.n, wish.n * bytesOf(model)));
  const isCurrent = () => meter === running;
  gallery.lay(wish.n, model);
  find("after", HTMLElement).hidden = true;
  find("stop", HTMLButtonElement).hidden = false;
  speak(`Painting ${wish.n} images.`);
  requestAnimationFrame(tell);

  const end = (sentence: string) => {
    running.end();
    if (!isCurrent()) return;
    stop = undefined;
    find("stop", HTMLButtonElement).hidden = true;
    tell();
    speak(sentence);
  };
  stop = begin(
    { type: "generate", ...wish },
    {
      started: ({ model, seed, n }: Started) => {
        if (!isCurrent()) return;
        history.replaceState(null, "", linkTo({ ...wish, model, seed, n }));
      },
      frame: ({ index, first, bytes }) => {
        if (!isCurrent()) return;
        const { picture } = gallery.tiles[index]!;
        running.painted(Math.max(0, first + bytes.length - picture.painted));
        picture.paint(first, bytes);
      },
      image: (index, bitsPerDim) => {
        if (!isCurrent()) return;
        running.done(index, bitsPerDim);
        gallery.finish(index, bitsPerDim);
      },
      ended: (cancelled) => {
        end(cancelled ? "Stopped." : `Done. ${running.line}`);
        if (isCurrent()) find("after", HTMLElement).hidden = cancelled;
      },
      failed: (refusal) => {
        end("");
        if (isCurrent()) sayError(refusal);
      },
    },
  );
}

/** Writes the running line, with every frame of the screen while something is painted. */
function tell(): void {
  find("meter", HTMLElement).textContent = meter!.line;
  if (stop) requestAnimationFrame(tell);
}

function speak(sentence: string): void {
  find("spoken", HTMLElement).textContent = sentence;
}

const fileName = (): string => `${last!.model}-seed-${last!.seed}`;

async function copyLink(): Promise<void> {
  try {
    await navigator.clipboard.writeText(new URL(linkTo(last!), location.href).href);
    speak("The link is copied.");
    find("copy-link", HTMLButtonElement).textContent = "Link copied";
    setTimeout(() => (find("copy-link", HTMLButtonElement).textContent = "Copy link"), 2000);
  } catch {
    say("The browser does not let this page copy; the address of the page is the link.");
  }
}
