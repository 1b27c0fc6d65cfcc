// Reads the recipe of a file: the text of a PNG, the comment of a GIF, the XMP of a WebP (docs/api.md). Knows no page.

import { parsed, type Recipe } from "./recipe";

/** A file is not one that the page can open; the message is a sentence. */
export class FileError extends Error {}

const TEXT = "scanline\0"; // of a PNG
const COMMENT = "scanline "; // of a GIF
const LONGEST = 2 ** 16; // bytes of a text that is read: more than any recipe
const XMP = /<scanline:recipe>([^<]*)<\/scanline:recipe>/;

/** The recipe of a file; undefined where it has none, or is of another kind. Throws FileError where the file ends too early,
 * or its recipe is damaged. */
export function readRecipe(file: Uint8Array<ArrayBuffer>, name: string): Recipe | undefined {
  const view = new DataView(file.buffer);
  const text = (start: number, length: number) => {
    if (start + length > file.length) throw new RangeError();
    return String.fromCharCode(...file.subarray(start, start + Math.min(length, LONGEST)));
  };
  const find = { "\x89PNG": inPng, GIF8: inGif, RIFF: inWebp }[file.length < 4 ? "" : text(0, 4)];
  const found: string[] = [];
  try {
    find?.(view, text, found);
  } catch {
    // without a recipe, the browser says whether it can read the file
    if (found.length) throw new FileError(`${name} was cut off: its end is missing.`);
  }
  if (!found.length) return undefined;
  const recipe = parsed(found[0]!);
  if (!recipe) throw new FileError(`The recipe in ${name} is damaged, or of another version.`);
  return recipe;
}

/** The bytes from `start` on as characters; throws beyond the file's end. */
type Text = (start: number, length: number) => string;

// Each of these adds the recipes that it finds, and throws where the file ends too early.

/** A chunk has its length, its name, its content and a checksum. */
function inPng(view: DataView, text: Text, found: string[]): void {
  for (let at = 8; ; ) {
    const length = view.getUint32(at);
    const kind = text(at + 4, 4);
    const content = kind === "tEXt" ? text(at + 8, length) : "";
    if (content.startsWith(TEXT)) found.push(content.slice(TEXT.length));
    at += 8 + length;
    view.getUint32(at); // the checksum
    at += 4;
    if (kind === "IEND") return;
  }
}

/** Extensions and images, each in blocks of at most 255 bytes, of which the last is empty. */
function inGif(view: DataView, text: Text, found: string[]): void {
  const colours = (flags: number) => (flags & 128 ? 3 * 2 ** ((flags & 7) + 1) : 0); // bytes of a palette
  let at = 13 + colours(view.getUint8(10));
  for (;;) {
    const kind = view.getUint8(at++);
    if (kind === 0x3b) return;
    const isComment = kind === 0x21 && view.getUint8(at) === 0xfe;
    // an extension's label, or an image's place, palette, and width of codes
    at += kind === 0x21 ? 1 : 10 + colours(view.getUint8(at + 8));
    let comment = "";
    for (let length; (length = view.getUint8(at++)); at += length) if (isComment) comment += text(at, length);
    if (comment.startsWith(COMMENT)) found.push(comment.slice(COMMENT.length));
  }
}

/** A chunk has its name, its length, and its content, to an even number of bytes. */
function inWebp(view: DataView, text: Text, found: string[]): void {
  const end = 8 + view.getUint32(4, true);
  for (let at = 12; at < end; ) {
    const length = view.getUint32(at + 4, true);
    const content = text(at, 4) === "XMP " ? XMP.exec(text(at + 8, length)) : null;
    if (content) found.push(content[1]!);
    at += 8 + length + (length & 1);
  }
  view.getUint8(end - 1);
}
