// Compress: a picture, the code that paints it, and what the model paints when bits of the code are flipped. Row by row,
// the picture appears and the bits that it took fade. The address has the code that is shown: it is the whole picture.

import "../style/compress.css";
import { local } from "../api/local";
import { bytesOf, type Model } from "../api/models";
import { fromBase64, toBase64, toBase64Url } from "../base/base64";
import { copied } from "../base/browser";
import { Ink } from "../complete/ink";
import { setUpFiles, showThumbnails } from "../complete/sources";
import { openedPool } from "../device/panel";
import { enlarge, find, make, onClick, pixelScale, setText } from "../base/elements";
import { Picture } from "../pictures/picture";
import { save } from "../pictures/files";
import { pngSize } from "../pictures/png_size";
import { onAddress, onModel } from "../shell/model";
import { clearNotice, FormError, showError } from "../base/notice";
import { addressOf, detailsOf, goTo, isShown, onChosenTab } from "../shell/tabs";
import { BitBar, withFlipped } from "./bit_bar";
import { DeviceCodec, ServerCodec, type Codec, type Painted } from "./codecs";
import markup from "./compress.html?raw";

const [ROOM, MARGIN] = [160, 48]; // CSS pixels of a picture, and beside both
const PLAY_MS = 1500; // all rows
const MAX_CODE_BYTES = 4; // for a byte of a picture: a probability has 24 bits
const INVALID = { hex: "two hexadecimal digits for each byte", base64: "base64" };

/** Pictures of the other tabs. */
export interface Sources {
  gallery(): Picture[];
  drawing(): Picture | undefined;
}

let sources: Sources;
let model: Model;
let codec: Codec;
let picture: Picture | undefined; // the visitor's
let changes = ""; // of the file that it was, in words
let isLinked = false; // it is that of a link
let isOther = false; // it is what the code of the link paints here, with other weights than the link's
let shownFields = ""; // of the address, for the code that is shown
let own = new Uint8Array(); // its code
let code = new Uint8Array(); // the one that is shown
let painted: Painted | undefined; // by it
let bar: BitBar;
let job = 0; // the latest; what an earlier one finds is not shown
let playing: number | undefined;

export function setUpCompress(from: Sources): void {
  sources = from;
  find("compress", HTMLElement).innerHTML = markup;
  bar = new BitBar((bit) => void paint(withFlipped(code, bit)));
  setUpFiles("compress", "coded-upload", () => model, (opened) => {
    if ("pictures" in opened) {
      void use(opened.pictures[0]!);
      void offer();
      return;
    }
    const ink = new Ink(model);
    const changes = ink.load(opened.image, opened.width, opened.height);
    void use(ink.picture(), changes);
  });
  onClick("coded-drawing", () => void use(sources.drawing()!));
  find("coded-by", HTMLFieldSetElement).addEventListener("change", () => {
    chooseCodec();
    if (picture) void use(picture);
  });
  onClick("coded-play", () => (playing === undefined ? play() : pause()));
  const rows = find("coded-rows", HTMLInputElement);
  rows.addEventListener("input", () => {
    pause();
    showRows(Number(rows.value));
  });
  const form = find("coded-form", HTMLFormElement);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    try {
      void paint(readText());
    } catch (error) {
      showError(error, "compress");
    }
  });
  form.addEventListener("change", ({ target }) => target instanceof HTMLInputElement && writeText());
  onClick("code-text-copy", () => void copy(find("code-text", HTMLTextAreaElement).value));
  onClick("code-link", () => void copy(new URL(`#compress&${shownFields}`, location.href).href));
  onClick("code-restore", () => void paint(own));
  onClick("code-save", () => save(new Blob([codec.fileOf(own) as BlobPart]), `${model.id}-picture.scan`));
  onChosenTab(restore);
  window.addEventListener("tab", () => void offer());
  onAddress(restore);
  window.addEventListener("resize", () => picture && fit());
  onModel((selected, isChosen) => {
    model = selected;
    if (isChosen) {
      const address = addressOf("compress", new URLSearchParams()); // its code was another model's
      if (isShown("compress")) goTo(address, false);
    }
    document.querySelector<HTMLInputElement>("#coded-by input")!.checked = true;
    chooseCodec();
    picture = painted = undefined;
    find("coded", HTMLElement).hidden = true;
    find("coded-form", HTMLFormElement).hidden = true;
    job++;
    shownFields = "";
    pause();
    restore();
    void offer();
  });
}

/** Paints the code of the address, unless it is shown already. */
function restore(): void {
  const fields = detailsOf("compress");
  if (!model || !fields.has("code") || String(fields) === shownFields) return;
  shownFields = String(fields);
  openLink(fields).catch((error) => {
    shownFields = ""; // the tab tries again when it is next shown
    showError(error, "compress");
  });
}

/** Paints the picture of a link, which becomes the picture that is shown. */
async function openLink(fields: URLSearchParams): Promise<void> {
  if (fields.has("model") && fields.get("model") !== model.id) {
    throw new Error(`This server does not have the model ${fields.get("model")} of the link, which its picture needs.`);
  }
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = fromBase64(fields.get("code")!);
  } catch {
    throw new Error("The code of this link is not complete.");
  }
  if (fields.has("bytes") && Number(fields.get("bytes")) !== bytes.length) {
    throw new Error(`This link was cut off: it has ${bytes.length} bytes of a code of ${fields.get("bytes")}.`);
  }
  const pool = openedPool();
  const isOfDevice = pool && (await new DeviceCodec(model, pool).weights()) === fields.get("weights");
  document.querySelector<HTMLInputElement>(`#coded-by [value=${isOfDevice ? "device" : "server"}]`)!.checked = true;
  chooseCodec();
  await run("Painting the picture of the link.", async (isCurrent) => {
    const [weights, found] = [await codec.weights(), await decode(bytes)];
    const [itsCode, png] = [await codec.encode(found.picture), await pngSize(found.picture)];
    if (!isCurrent()) return;
    [picture, own, changes, isLinked] = [found.picture, Uint8Array.from(itsCode), "", true];
    isOther = fields.has("weights") && fields.get("weights") !== weights;
    find("coded", HTMLElement).hidden = false;
    showLengths(png);
    show(bytes, found);
    const box = find("coded", HTMLElement);
    if (box.getBoundingClientRect().top > window.innerHeight / 2) box.scrollIntoView(); // a phone shows the picture
    if (!isOther) return;
    showError(`The link was made with other weights of ${model.id}, so its code paints another picture here.`);
  });
}

/** Offers pictures while the tab is shown, and takes the first where there is none. */
async function offer(): Promise<void> {
  if (!isShown("compress")) return pause();
  const drawing = sources.drawing();
  find("coded-drawing", HTMLButtonElement).hidden = !drawing;
  find("coded-by", HTMLFieldSetElement).hidden = !openedPool();
  const of = model;
  const place = { prefix: "coded-", verb: "Compress" };
  const offered = await showThumbnails(model, sources.gallery(), (chosen) => void use(chosen), place);
  const first = drawing ?? offered[0];
  const isFree = !picture && !detailsOf("compress").has("code");
  if (of === model && isShown("compress") && isFree && first) await use(first);
}

function chooseCodec(): void {
  const pool = openedPool();
  const by = document.querySelector<HTMLInputElement>("#coded-by :checked")!;
  codec = (by.value === "device" || local) && pool ? new DeviceCodec(model, pool) : new ServerCodec(model);
}

/** Asks for the code of a picture, and paints it. `changed` says what was changed of the file that it was. */
async function use(chosen: Picture, changed = ""): Promise<void> {
  picture = Picture.of(chosen.size, chosen.bytes);
  changes = changed;
  isLinked = false;
  const current = picture;
  find("coded", HTMLElement).hidden = false;
  painted = undefined;
  fit();
  // code and lengths are those of another picture until those of this one are there
  find("coded", HTMLElement).classList.add("pending");
  await run("Asking for the code of this picture.", async (isCurrent) => {
    const found = await codec.encode(current);
    const png = await pngSize(current);
    if (!isCurrent()) return;
    own = Uint8Array.from(found);
    showLengths(png);
    await paint(own);
  });
}

/** Paints a code from its first row on. */
async function paint(bytes: Uint8Array): Promise<void> {
  await run("Painting what the code says.", async (isCurrent) => {
    const [weights, found] = [await codec.weights(), await decode(bytes)];
    if (!isCurrent()) return;
    show(bytes, found);
    const fields = new URLSearchParams({
      model: model.id,
      weights,
      bytes: String(code.length), // so that a link that was cut off shows: the shorter code is one, too
      code: toBase64Url(code),
    });
    shownFields = String(fields);
    const address = addressOf("compress", fields);
    if (isShown("compress")) goTo(address, false);
  });
}

/** What a code paints. Throws where it is longer than that of any picture. */
function decode(bytes: Uint8Array): Promise<Painted> {
  if (bytes.length <= MAX_CODE_BYTES * bytesOf(model)) return codec.decode(bytes);
  throw new Error(`No picture of this model has a code of ${bytes.length.toLocaleString("en")} bytes.`);
}

/** Shows a code and what it paints, from the first row on. */
function show(bytes: Uint8Array, found: Painted): void {
  code = Uint8Array.from(bytes);
  painted = found;
  find("coded-form", HTMLFormElement).hidden = false;
  find("coded", HTMLElement).classList.remove("pending");
  find("code-restore", HTMLButtonElement).disabled = isEqual(code, own);
  bar.show(code, own);
  writeText();
  find("coded-rows", HTMLInputElement).value = "0";
  setText("coded-whose", isLinked ? "Picture of the link" : "Your picture");
  fit();
  setText("coded-status", comparison());
  play();
}

/** Runs the latest job, which shows nothing once there is a later one. */
async function run(status: string, work: (isCurrent: () => boolean) => Promise<void>): Promise<void> {
  const number = ++job;
  pause();
  clearNotice();
  setText("coded-status", status);
  try {
    await work(() => number === job);
  } catch (error) {
    if (number !== job) return;
    setText("coded-status", "");
    showError(error, "compress");
  }
}

/** What the code's picture and the visitor's have in common. */
function comparison(): string {
  const { bytes, size } = painted!.picture;
  const first = bytes.findIndex((byte, at) => byte !== picture!.bytes[at]);
  if (first < 0 && isLinked && isOther) return "With the weights of this server, the code of the link paints this picture.";
  if (first < 0 && isLinked) return `The link is this picture: its code of ${code.length} bytes is in the address.`;
  const which = changes ? "the changed" : "your";
  if (first < 0) return `The code paints ${which} picture, byte for byte. ${changes}`.trim();
  const pixel = Math.floor(first / size.channels);
  const place = `row ${Math.floor(pixel / size.width) + 1}, column ${(pixel % size.width) + 1}`;
  return `The code paints another picture from ${place} on.`;
}

function play(): void {
  const { height } = model;
  const rows = find("coded-rows", HTMLInputElement);
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return showRows(height);
  showRows(Number(rows.value) === height ? 0 : Number(rows.value));
  setPlay(true);
  playing = window.setInterval(() => {
    showRows(Number(rows.value) + 1);
    if (Number(rows.value) === height) pause();
  }, PLAY_MS / height);
}

function pause(): void {
  window.clearInterval(playing);
  playing = undefined;
  setPlay(false);
}

function setPlay(isPlaying: boolean): void {
  const button = find("coded-play", HTMLButtonElement);
  button.setAttribute("aria-pressed", String(isPlaying));
  button.textContent = isPlaying ? "Pause" : "Play";
}

/** Shows the first rows of the code's picture, and the bits that it took to paint them as read. */
function showRows(rows: number): void {
  const { width, height, channels } = model;
  find("coded-rows", HTMLInputElement).value = String(rows);
  const took = painted!.bits.slice(0, rows * width * channels).reduce((sum, bits) => sum + bits, 0);
  const read = rows === height ? 8 * code.length : Math.min(8 * code.length, Math.round(took));
  bar.showRead(read);
  draw("coded-painted", painted!.picture, rows);
  setText("coded-place", `${rows} of ${height} rows, ${read} of ${8 * code.length} bits`);
}

/** Sets the size of both pictures. */
function fit(): void {
  const rows = find("coded-rows", HTMLInputElement);
  rows.max = String(model.height);
  rows.disabled = find("coded-play", HTMLButtonElement).disabled = !painted;
  draw("coded-picture", picture!, model.height);
  if (painted) showRows(Number(rows.value));
  else draw("coded-painted", picture!, 0);
}

function draw(id: string, { size, canvas: source }: Picture, rows: number): void {
  const canvas = find(id, HTMLCanvasElement);
  Object.assign(canvas, { width: size.width, height: size.height });
  enlarge(canvas, pixelScale(size.width, Math.min(ROOM, (window.innerWidth - MARGIN) / 2)));
  if (rows) canvas.getContext("2d")!.drawImage(source, 0, 0, size.width, rows, 0, 0, size.width, rows);
}

/** The lengths of the picture's code, of files of it, and of its bytes. */
function showLengths(png: number): void {
  const raw = picture!.bytes.length;
  const rate = `${((8 * own.length) / raw).toFixed(2)} bits/dim`;
  const file = codec.fileOf(own);
  const lengths: [string, number, string][] = [
    ["Code", own.length, rate],
    [".scan file", file.length, ""],
    ["PNG file", png, ""],
    ["Pixels", raw, ""],
  ];
  find("coded-longer", HTMLElement).hidden = own.length <= raw;
  const most = Math.max(...lengths.map(([, bytes]) => bytes));
  find("lengths", HTMLElement).replaceChildren(
    ...lengths.map(([name, bytes, remark]) => {
      const bytesText = `${bytes.toLocaleString("en")} bytes`;
      const meter = make("meter", { value: bytes / most, ariaLabel: `Length: ${name}` });
      const figure = make("span", { className: "figures" }, [bytesText, remark].filter(Boolean).join(" · "));
      return make("li", {}, make("span", {}, name), meter, figure);
    }),
  );
}

const notation = (): "hex" | "base64" =>
  new FormData(find("coded-form", HTMLFormElement)).get("notation") as "hex" | "base64";

function writeText(): void {
  const hex = () => Array.from(code, (byte) => byte.toString(16).padStart(2, "0")).join("");
  find("code-text", HTMLTextAreaElement).value = notation() === "hex" ? hex() : toBase64(code);
}

/** The code of the text; throws where it is none. */
function readText(): Uint8Array {
  const field = find("code-text", HTMLTextAreaElement);
  const text = field.value.replace(/\s/g, "");
  if (notation() === "hex" && /^([\da-f]{2})*$/i.test(text)) {
    return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  }
  try {
    if (notation() === "base64") return fromBase64(text);
  } catch {
    // said below
  }
  throw new FormError(field, `The code must be ${INVALID[notation()]}.`);
}

const copy = async (text: string) => setText("coded-status", await copied(text));

const isEqual = (one: Uint8Array, other: Uint8Array): boolean =>
  one.length === other.length && one.every((byte, at) => byte === other[at]);
