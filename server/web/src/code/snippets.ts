// The same request as a program: curl, Python with scanline, the official openai client. Knows no form.

/** What a tab asks the API for. `seed` is text, because it can exceed what a number holds exactly. */
export interface CodeRequest {
  model: string;
  n: number;
  seed: string;
  temperature: number;
  class?: string | undefined; // "none" for no class; this and the next are absent where the model knows none
  guidance?: number | undefined;
  best_of?: number | undefined;
  edit?: { image: string; keep_rows?: number; mask?: string; particles: number }; // pictures are PNG in base64
}

export type Language = "curl" | "python" | "openai";

/** `withKey` where the server asks for an API key: the program takes it from the environment. */
export function snippet(language: Language, request: CodeRequest, server: string, withKey: boolean): string {
  return { curl, python, openai }[language](request, server, withKey);
}

export const route = ({ edit }: CodeRequest): string => `v1/images/${edit ? "edits" : "generations"}`;

/** The fields of the API, as JSON. */
export function json({ edit, seed, ...fields }: CodeRequest): string {
  const { image, mask, ...rest } = edit ?? {};
  const pictures = Object.fromEntries(Object.entries({ image, mask }).filter(([, value]) => value !== undefined));
  const text = JSON.stringify({ ...fields, ...rest, ...pictures });
  return `${text.slice(0, -1)},"seed":${seed}}`;
}

const curl = (request: CodeRequest, server: string, withKey: boolean): string =>
  `curl ${server}${route(request)} \\${withKey ? '\n  -H "authorization: Bearer $SCANLINE_KEY" \\' : ""}
  -H 'content-type: application/json' -H 'accept: image/png' \\
  -d '${json(request).replaceAll("'", "'\\''")}' -o images.png`;

/** Arguments of a Python call, one a line. */
const call = (of: Record<string, string | number | undefined>): string =>
  Object.entries(of)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `    ${name}=${value},\n`)
    .join("");

const text = (value: string): string => JSON.stringify(value);
const textOrNone = (value: string | undefined): string | undefined => (value === undefined ? undefined : text(value));

function python({ edit, model, n, seed, temperature, guidance, ...rest }: CodeRequest): string {
  const common = { n, seed, temperature, class_name: textOrNone(rest.class), guidance, best_of: rest.best_of };
  const load = `model = scanline.load(${text(model)})  # a shipped model, a model directory or ORG/NAME`;
  const paint = (first: string, fields: Record<string, string | number | undefined>) =>
    `images = model.${first}${call(fields)})\nimages.save("images.png")`;
  if (!edit) return `import scanline\n\n${load}\n${paint("sample(\n", common)}`;
  const known = { keep_rows: edit.keep_rows, mask: edit.mask && `picture(${text(edit.mask)})`, particles: edit.particles };
  return `import base64, io

from PIL import Image
import scanline


def picture(png):
    return Image.open(io.BytesIO(base64.b64decode(png)))


${load}
${paint(`complete(\n    picture(${text(edit.image)}),\n`, { ...common, ...known })}`;
}

function openai({ edit, model, n, seed, temperature, guidance, ...rest }: CodeRequest, server: string, withKey: boolean): string {
  const extra: Record<string, string | number | undefined> = { seed, temperature, class: textOrNone(rest.class), guidance };
  extra.best_of = rest.best_of;
  Object.assign(extra, { keep_rows: edit?.keep_rows, particles: edit?.particles });
  const own = Object.entries(extra).filter(([, value]) => value !== undefined);
  const body = `{${own.map(([name, value]) => `"${name}": ${value}`).join(", ")}}`;
  const pictures = edit && {
    image: `base64.b64decode(${text(edit.image)})`,
    mask: edit.mask && `base64.b64decode(${text(edit.mask)})`,
  };
  const fields = { model: text(model), ...pictures, prompt: text(""), n, extra_body: body };
  const key = withKey ? 'os.environ["SCANLINE_KEY"]' : '"none"';
  return `import base64${withKey ? "\nimport os" : ""}

from openai import OpenAI

client = OpenAI(base_url="${server}v1", api_key=${key})
answer = client.images.${edit ? "edit" : "generate"}(
${call(fields)})
for number, image in enumerate(answer.data):
    with open(f"image-{number}.png", "wb") as file:
        file.write(base64.b64decode(image.b64_json))`;
}
