// A program against the types that openapi-typescript makes of a server's description: node generated.js SERVER IMAGE,
// the image in base64.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };
const [baseUrl, picture] = process.argv.slice(2) as [string, string];
const client = createClient<paths, "application/json">({ baseUrl });
const image = new Blob([Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0))], { type: "image/png" });

const painted = await client.POST("/v1/images/generations", { body: { n: 2, seed: 7 } });
const answer: components["schemas"]["ImagesAnswer"] | undefined = painted.data;

const form: components["schemas"]["EditForm"] = { image: [], keep_rows: 4, seed: 7 };
const edited = await client.POST("/v1/images/edits", {
  body: form,
  bodySerializer: () => {
    const parts = new FormData();
    parts.append("image", image, "image.png");
    parts.append("keep_rows", String(form.keep_rows));
    parts.append("seed", String(form.seed));
    return parts;
  },
});

const refused = await client.POST("/v1/images/generations", { body: { n: 0 } });
const message: string | undefined = refused.error?.error.message;
const texts = (data?: components["schemas"]["ImageData"][]) => data?.map((one) => one.b64_json);
console.log(JSON.stringify({ painted: texts(answer?.data), edited: texts(edited.data?.data), message }));
