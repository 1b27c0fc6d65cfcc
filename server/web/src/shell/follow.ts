// "Follow this one": How it works opens on a picture, by its address.

import { toBase64Url } from "../base/base64";
import { find } from "../base/elements";
import type { Picture } from "../pictures/picture";
import { addressOf, selectTab } from "./tabs";

/** Follows a picture of the selected model's size. */
export function follow(picture: Picture): void {
  const model = find("model", HTMLSelectElement).value;
  addressOf("how", new URLSearchParams({ model, image: toBase64Url(picture.bytes) }));
  selectTab("how", true);
}
