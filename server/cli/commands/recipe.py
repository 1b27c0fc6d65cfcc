"""scanline recipe: what painted the images of a file, and the command that paints them again."""

import json
from pathlib import Path
from shlex import join
from typing import Annotated, Any

import typer

from scanline.server.cli.base.options import Json

# of a request, by the option of `sample` and `complete`
OPTIONS = {
    "model": "--model",
    "seed": "--seed",
    "class": "--class",
    "temperature": "--temperature",
    "guidance": "--guidance",
    "best_of": "--best-of",
    "particles": "--particles",
    "keep_rows": "--keep-rows",
}
LOOKS = {"frames": "--frames", "seconds": "--seconds", "scale": "--scale"}


def recipe(
    file: Annotated[
        Path,
        typer.Argument(help="A PNG, WebP or GIF that scanline has written; -: standard input."),
    ],
    as_json: Json = False,
) -> None:
    """Print the request that painted a file's images, and the command that paints them again."""
    from scanline.model.base.named_files import read_input
    from scanline.model.images.recipe import read

    found = read(read_input(file))
    if found is None:
        raise ValueError(f"{file} carries no recipe: scanline has not painted it, or it was edited")
    command = _command(found, file.name if file.suffix else "images.png")
    if as_json:
        print(json.dumps(found))
        return
    request = found["request"]
    print(
        f"painted by {request['model']} of scanline {found['scanline']}, digest {found['digest']}"
    )
    print(f"request: {json.dumps(request)}")
    if "index" in found:
        print(f"image {json.dumps(found['index'])} of it, from 0")
    for digest in found.get("known_sha256", ()):
        print(f"completes a picture that is not in the file; SHA-256 of what was known: {digest}")
    print(f"again: {command}")


def _command(recipe: dict[str, Any], out: str) -> str:
    """Return the command for a recipe; ValueError where a file's is none of ours."""
    try:
        request = recipe["request"]
        known = recipe.get("known_sha256", [])
        # What an index in the file is not, in a command of several pictures.
        is_numbered_through = len(known) > 1 and "each" not in recipe
        listed = request.get("class")
        is_of_names = isinstance(listed, list) and any(len(name) != 1 for name in listed)
        if is_numbered_through or is_of_names:
            words = _over_http(request, len(known), out)
        else:
            words = _words(recipe, len(known), out)
        texts = [*words, *known, recipe["scanline"], recipe["digest"]]
        if all(text.isprintable() for text in texts):
            return join(words)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise ValueError("the file's recipe is damaged, or of another version")


def _over_http(request: dict[str, Any], pictures: int, out: str) -> list[str]:
    words = ["curl", "-s", "localhost:8000/v1/images/"]
    if pictures:
        words[-1] += "edits"
        words += pictures * ["-F", "image=@PICTURE"]
        for name, value in request.items():
            words += ["-F", f"{name}={value}"]
    else:
        words[-1] += "generations"
        words += ["-d", json.dumps(request)]
    kind = Path(out).suffix.removeprefix(".").lower()
    return [*words, "-H", f"accept: image/{kind}", "-o", out]


def _words(recipe: dict[str, Any], pictures: int, out: str) -> list[str]:
    """Return the words of `scanline sample` or `complete`."""
    request = recipe["request"]
    index = recipe.get("index", 0)
    words = ["scanline", "sample"]
    if pictures:
        words = ["scanline", "complete", *["PICTURE"] * pictures]
        if "keep_rows" not in request:
            words += ["--mask", "MASK"]
    if recipe.get("each") == "class":
        words.append("--each-class")
    if not isinstance(request.get("class"), list):
        words += ["-n", f"{request.get('n', index + 1):d}"]
    for name, option in OPTIONS.items():
        if name in request:
            value = request[name]
            # several classes of one character each
            text = "".join(value) if isinstance(value, list) else f"{value}"
            words += [option, text]
    for name, option in LOOKS.items():
        if name in recipe and (name, recipe[name]) != ("scale", 1):
            words += [option, f"{recipe[name]:g}"]
    for name in ("invert", "labels"):
        if recipe.get(name):
            words.append(f"--{name}")
    # A folder has a file of each image, of which this is one.
    return [*words, "--out", "images" if index else out]
