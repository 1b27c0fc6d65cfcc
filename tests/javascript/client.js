// What a program with the official JavaScript client would do, told as one JSON object: node client.js BASE_URL IMAGE MASK
import fs from "node:fs";
import OpenAI, { toFile } from "openai";

const [baseURL, imagePath, maskPath] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none is needed", maxRetries: 0 });
const [image, mask] = [imagePath, maskPath].map((path) => fs.readFileSync(path));
const pictures = (answer) => answer.data.map((one) => one.b64_json);

async function refusal(call) {
  try {
    await call();
  } catch (error) {
    const { status, message, param, code, type, requestID } = error;
    return { kind: error.constructor.name, status, message, param, code, type, requestID };
  }
  throw new Error("nothing was refused");
}

async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

const ids = [];
for await (const model of client.models.list()) ids.push(model.id);

const seeded = { prompt: "", n: 3, size: "5x7", seed: 7, temperature: 0.9 };
const kept = { image: await toFile(image, "image.png", { type: "image/png" }), prompt: "", keep_rows: 4, seed: 7 };
const { data: answer, response } = await client.images.generate(seeded).withResponse();
const abandoned = await client.images.generate({ prompt: "", n: 2000, stream: true });
for await (const _ of abandoned) break; // which closes its connection

console.log(
  JSON.stringify({
    ids,
    model: await client.models.retrieve("grey"),
    generated: pictures(answer),
    seed: answer.seed,
    seedHeader: response.headers.get("x-scanline-seed"),
    requestId: answer._request_id,
    streamed: await all(await client.images.generate({ ...seeded, stream: true, partial_images: 3 })),
    edited: pictures(await client.images.edit(kept)),
    editedFromDisk: pictures(await client.images.edit({ ...kept, image: fs.createReadStream(imagePath) })),
    editedList: pictures(await client.images.edit({ ...kept, image: [await toFile(image, "a"), await toFile(image, "b")] })),
    masked: pictures(await client.images.edit({ image: await toFile(image, "a"), mask: await toFile(mask, "m.png"), prompt: "" })),
    editedStream: await all(await client.images.edit({ ...kept, stream: true, partial_images: 1 })),
    wrong: await refusal(() => client.images.generate({ prompt: "", n: 0 })),
    misspelt: await refusal(() => client.images.edit({ ...kept, keep_row: 4 })),
    unknown: await refusal(() => client.images.generate({ prompt: "", model: "dall-e-2" })),
    wrongStream: await refusal(() => client.images.generate({ prompt: "", stream: true, partial_images: 4 })),
  }),
);
