"""The recipe of a task's images: see model/images/recipe.py, which writes it into their files."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from scanline.model.base.config import ModelConfig
from scanline.model.base.extras import version
from scanline.model.base.sampling_options import DrawnLabel
from scanline.model.images.recipe import MAX_KNOWN, Recipe, of_image
from scanline.model.sampling.base.messages import GenerateRequest

MAX_MASK_PIXELS = 2**16  # of a mask that a recipe has


def recipe_of(
    requests: Sequence[GenerateRequest], config: ModelConfig, model: str, digest: str
) -> Recipe | None:
    """Return the recipe of all images of requests that differ in class or picture only, by the
    names that a request over HTTP has; None of codes, which are their images' recipe. model: its
    name; digest: of what has painted them."""
    request = requests[0]
    if request.codes is not None:
        return None
    names = ("none", *config.class_names)
    fields: dict[str, object] = {
        "model": model,
        "n": request.n,
        "seed": request.seed,
    }
    label = request.label
    if isinstance(label, tuple):
        fields["class"] = [names[number] for number in label]
    elif isinstance(label, DrawnLabel):
        fields["class"] = "any"
    elif label or not request.known:
        fields["class"] = names[label]
    fields |= request.used
    if label and not request.known:
        fields["best_of"] = request.best_of
    recipe: Recipe = {
        "scanline": version(),
        "digest": digest,
        "request": fields,
    }
    known = [picture for row in requests for picture in row.known]
    masks = [mask for row in requests for mask in row.masks]
    if known:
        fields["n"] = request.n // len(request.known)
        fields["particles"] = request.particles
        rows = _kept_rows(masks, config)
        if rows is not None:
            fields["keep_rows"] = rows
        elif len(set(masks)) == 1 and config.height * config.width <= MAX_MASK_PIXELS:
            pixels = np.frombuffer(masks[0], np.uint8)[:: config.channels]
            bits = np.packbits(pixels, bitorder="little")
            recipe["mask"] = b64encode(bits.tobytes()).decode()
        named = zip(known[:MAX_KNOWN], masks, strict=False)
        recipe["known_sha256"] = [known_sha256(*both) for both in named]
    if len(requests) > 1:
        # Each has images from 0 on.
        recipe["each"] = "picture" if known else "class"
        if not known:
            del fields["class"]
    if len(requests) == request.n == 1:
        label = request.label_of(0)
        return of_image(recipe, 0, names[label] if label else None)
    return recipe


def known_sha256(picture: bytes, mask: bytes) -> str:
    """Return the SHA-256 of what was known: a picture's bytes [N], hidden ones 0, then its mask [N]
    of 0 and 1."""
    known = np.frombuffer(picture, np.uint8) * np.frombuffer(mask, np.uint8)
    return sha256(known.tobytes() + mask).hexdigest()


def _kept_rows(masks: Sequence[bytes], config: ModelConfig) -> int | None:
    """Return the rows that are known of every picture, where nothing else is."""
    mask = masks[0]
    rows, rest = divmod(mask.count(1), config.width * config.channels)
    is_of_rows = not rest and mask.rstrip(b"\0").count(0) == 0
    return rows if is_of_rows and set(masks) == {mask} else None
