// Draw faces in pixel art, 16 x 16 in colour, by the designs of DiceBear (CC0), or read of which
// parts faces are:
//
//   npm install --prefix TOOLS @dicebear/core@9.4.3 @dicebear/pixel-art@9.4.3 @resvg/resvg-js@2.6.2
//   node benchmarks/data/avatars.mjs draw TOOLS FOLDER [COUNT]
//   node benchmarks/data/avatars.mjs read TOOLS SAMPLES.npy
//
// draw: FOLDER/train and FOLDER/test get a subfolder for each kind of face. A pixel of a picture is
// a pixel of the design, without blended edges. A face is drawn from its seed, the same each time.
//
// read: finds the parts and colours that come closest to each sample (an array of `scanline sample
// --out SAMPLES.npy`), and writes a line of JSON for each: its kind, and how many of its 256 pixels
// differ from that face.
//
// A model of 1.2 MB for them in an hour of a busy core; benchmarks/log.md says how good:
//
//   scanline train --data FOLDER --classes --out MODEL --minutes 62 --layers 2 --width 128 \
//     --batch 12 --unlabelled 0.2 --average 0.998

import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [command, tools, subject, count = "60000"] = process.argv.slice(2);
const { resolve } = createRequire(path.resolve(tools, "package.json"));
const fromTools = (name) => import(pathToFileURL(resolve(name)));
const { createAvatar } = await fromTools("@dicebear/core");
const style = await fromTools("@dicebear/pixel-art");
const { Resvg } = await fromTools("@resvg/resvg-js");

// the library's long and short hair, by what one sees
const LONG =
  "long01 long02 long03 long04 long07 long08 long09 long12 long13 long16 long17 long20 long21";
const SHORT =
  "long10 long11 short01 short02 short03 short04 short06 short08 short09 short10 short12" +
  " short14 short15 short16 short17 short19 short22";
const BALD = "short05 short07 short18 short20 short21 short23 short24";
// beards are hardly seen; hats and glasses only where they are the kind; all else is drawn
const PLAIN = { hatProbability: 0, beardProbability: 0, glassesProbability: 0 };
const KINDS = {
  bald: { hair: BALD },
  braids: { hair: "long06 long18 long19" },
  buns: { hair: "long05 long14" },
  curly_hair: { hair: "long15 short11 short13" },
  glasses: { glassesProbability: 100 },
  hat: { hatProbability: 100 },
  long_hair: { hair: LONG },
  short_hair: { hair: SHORT },
};
const SVG = 'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" shape-rendering="crispEdges"';
const BACKGROUNDS = ["b6e3f4", "c0aede", "d1d4f9", "ffd5dc", "ffdfbf"];
const ALIKE = 8; // levels by which a pixel may differ unseen

function rasterised(svg) {
  return new Resvg(svg, { font: { loadSystemFonts: false } }).render();
}

function rendered(options) {
  const avatar = createAvatar(style, { ...PLAIN, backgroundColor: BACKGROUNDS, ...options });
  return rasterised(avatar.toString());
}

function draw() {
  for (const [part, number] of [["train", count], ["test", count / 15]]) {
    const ofEach = Math.floor(number / Object.keys(KINDS).length);
    for (const [kind, options] of Object.entries(KINDS)) {
      const into = path.join(subject, part, kind);
      mkdirSync(into, { recursive: true });
      const hair = options.hair?.split(" ");
      for (let index = 0; index < ofEach; index += 1) {
        const seed = `${part} ${kind} ${index}`;
        const face = rendered({ ...options, ...(hair && { hair }), seed });
        writeFileSync(path.join(into, `${String(index).padStart(5, "0")}.png`), face.asPng());
      }
    }
    console.log(`${part}: ${ofEach} of each of ${Object.keys(KINDS).length} kinds`);
  }
  copyFileSync(new URL("avatars.md", import.meta.url), path.join(subject, "README.md"));
}

// The layers that a part can be, one for each variant and colour, in RGBA with products of opacity.
function layers(part, drawings) {
  const found = [];
  for (const [variant, drawing] of Object.entries(drawings)) {
    for (const colour of style.schema.properties[`${part}Color`].default) {
      const body = drawing({}, { [part]: `#${colour}` });
      found.push({ part, variant, layer: rasterised(`<svg ${SVG}>${body}</svg>`).pixels });
    }
  }
  return found;
}

// How far a face of these layers is from a sample: its pixels that differ, and the sum of levels.
function distance(face, sample) {
  let different = 0;
  let sum = 0;
  for (let at = 0; at < 256; at += 1) {
    let largest = 0;
    for (let channel = 0; channel < 3; channel += 1) {
      let value = 0;
      for (const { layer } of face) {
        const opacity = layer[4 * at + 3] / 255;
        value = Math.round(value * (1 - opacity) + layer[4 * at + channel]);
      }
      const apart = Math.abs(value - sample[3 * at + channel]);
      largest = Math.max(largest, apart);
      sum += apart;
    }
    if (largest > ALIKE) different += 1;
  }
  return { different, sum };
}

// Changes one part at a time for the closest one, until none is closer.
function closest(choices, sample) {
  const face = choices.map((layers) => layers[0]);
  let least = distance(face, sample);
  for (let before = Infinity; least.sum < before; ) {
    before = least.sum;
    for (const [index, layers] of choices.entries()) {
      for (const layer of layers) {
        const kept = face[index];
        face[index] = layer;
        const apart = distance(face, sample);
        if (apart.sum < least.sum) least = apart;
        else face[index] = kept;
      }
    }
  }
  return { face, least };
}

function kindOf(face) {
  const variant = Object.fromEntries(face.map((layer) => [layer.part, layer.variant]));
  if (variant.hat || variant.glasses) return variant.hat ? "hat" : "glasses";
  return Object.keys(KINDS).find((kind) => KINDS[kind].hair?.split(" ").includes(variant.hair));
}

async function read() {
  const drawings = path.join(path.dirname(resolve("@dicebear/pixel-art")), "components/index.js");
  const components = await import(pathToFileURL(drawings));
  const without = Object.fromEntries(Object.keys(components).map((part) => [part, []]));
  const heads = style.schema.properties.skinColor.default.map((skin) => {
    const avatar = createAvatar(style, { ...without, skinColor: [skin] });
    return { part: "skin", layer: rasterised(avatar.toString()).pixels };
  });
  const backgrounds = BACKGROUNDS.map((colour) => {
    const square = `<path fill="#${colour}" d="M0 0h16v16H0z"/>`;
    return { part: "background", layer: rasterised(`<svg ${SVG}>${square}</svg>`).pixels };
  });
  const none = { layer: new Uint8Array(4 * 256) };
  const choices = [
    backgrounds,
    heads,
    [none, ...layers("accessories", components.accessories)],
    layers("clothing", components.clothing),
    layers("eyes", components.eyes),
    [none, ...layers("glasses", components.glasses)],
    layers("mouth", components.mouth),
    layers("hair", components.hair),
    [none, ...layers("hat", components.hat)],
  ];
  const file = readFileSync(subject);
  const header = 10 + file.readUInt16LE(8);
  for (let at = header; at < file.length; at += 256 * 3) {
    const { face, least } = closest(choices, file.subarray(at, at + 256 * 3));
    console.log(JSON.stringify({ kind: kindOf(face), different: least.different }));
  }
}

await { draw, read }[command]();
