"""The recipe that stands in a file of painted images: the request that paints them again, as JSON.

It is the text `scanline` of a PNG, a comment of a GIF, the XMP of a WebP (docs/api.md). It has
neither pixels nor a path nor a key: a picture that was completed is named by its SHA-256.
"""

import json
from typing import Any, TypeAlias

from PIL.PngImagePlugin import PngInfo

from scanline.model.images.contact_sheet import grid
from scanline.model.images.film import Film
from scanline.model.images.picture_files import open_file

KEYWORD = "scanline"
MAX_CHARACTERS = 2**15  # a longer one, of a list of long classes, is left out
MAX_KNOWN = 64  # pictures that are named
GIF_START = f"{KEYWORD} "
XMP_START = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description rdf:about="" xmlns:scanline="urn:scanline"><scanline:recipe>'
)
XMP_END = "</scanline:recipe></rdf:Description></rdf:RDF></x:xmpmeta>"
# what neither XML nor a terminal reads in JSON of ASCII
ESCAPES = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&\x7f"})
Recipe: TypeAlias = dict[str, Any]


def of_image(whole: Recipe | None, place: int, class_name: str | None) -> Recipe | None:
    """Return the recipe of one image of several, by its place among them and its class. How many
    others there are decides nothing of it."""
    if whole is None:
        return None
    recipe = {**whole, "request": {**whole["request"]}}
    request = recipe["request"]
    n = request.pop("n", 1)
    index = place
    if recipe.pop("each", None):
        index = place % n
    if class_name is not None:
        request["class"] = class_name
    elif isinstance(request.get("class"), list):
        # of a list, one without a class, which is neither guided nor chosen
        request |= {"class": "none", "guidance": 1.0}
        del request["best_of"]
    if "known_sha256" in whole:
        recipe["known_sha256"] = whole["known_sha256"][place // n :][:1]
    return {**recipe, "index": index}


def of_sheet(
    recipe: Recipe | None, count: int, columns: int | None, scale: int = 1
) -> Recipe | None:
    """Return the recipe of a sheet of so many images: where these stand in it."""
    if recipe is None or count == scale == 1:
        return recipe
    return {**recipe, "columns": grid(count, columns)[1], "scale": scale}


def of_film(recipe: Recipe | None, film: Film, scale: int) -> Recipe | None:
    """Return the recipe of a film that is enlarged so often."""
    if recipe is None:
        return None
    return {**recipe, "frames": film.frames, "seconds": film.seconds, "scale": scale}


def options(recipe: Recipe | None, kind: str) -> dict[str, Any]:
    """Return the options of Pillow's `save` with which a file of a kind carries a recipe."""
    if recipe is None:
        return {}
    text = json.dumps(recipe).translate(ESCAPES)
    if len(text) > MAX_CHARACTERS:
        return {}
    match kind:
        case "gif":
            return {"comment": GIF_START + text}
        case "webp":
            return {"xmp": (XMP_START + text + XMP_END).encode()}
        case _:
            info = PngInfo()
            info.add_text(KEYWORD, text)
            return {"pnginfo": info}


def read(data: bytes) -> Recipe | None:
    """Return the recipe of a file; None where it has none. What a stranger has written into it is
    not checked."""
    try:
        information = open_file(data, ("PNG", "WEBP", "GIF")).info
    except Exception:  # of a file that is none of these, or broken
        return None
    text = information.get(KEYWORD, "")
    comment = bytes(information.get("comment", b"")).decode(errors="replace")
    xmp = bytes(information.get("xmp", b"")).decode(errors="replace")
    if comment.startswith(GIF_START):
        text = comment.removeprefix(GIF_START)
    elif xmp.startswith(XMP_START):
        text = xmp.removeprefix(XMP_START).removesuffix(XMP_END)
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        recipe = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return recipe if isinstance(recipe, dict) else None
