"""A file carries its recipe: `scanline recipe` prints it, and a command that writes the same file."""

import json
import shlex

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.support import shapes
from tests.support.commands import done, refused
from tests.support.pictures import encode
from tests.support.server.json_requests import HOLE, IMAGE

SAMPLED = {
    "sheet.png": ["-n", 5],
    "sheet.webp": ["-n", 5, "--scale", 3, "--class", "Box", "--guidance", 2.5],
    "film.gif": ["-n", 2, "--frames", 3, "--class", "none", "--temperature", 0.5],
    "film.png": ["-n", 1, "--film", "--scale", 2],
    "inverted.png": ["-n", 2, "--invert", "--class", "any"],
    "classes.png": ["-n", 2, "--each-class", "--scale", 4],
}
COMPLETED = {
    "rows.png": ["--keep-rows", 3],
    "labels.webp": ["--keep-rows", 3, "--labels", "--class", "star", "--particles", 4],
    "mask.gif": ["--mask", "mask.png", "--frames", 4],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with a model of three classes and pictures."""
    shapes.save(tmp_path / "guided", shapes.GUIDED)
    (tmp_path / "picture.png").write_bytes(encode(IMAGE))
    (tmp_path / "mask.png").write_bytes(encode(HOLE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def again(file):
    """Run the command that the recipe of a file prints, once the file is gone."""
    line = done("recipe", file).splitlines()[-1]
    program, *words = shlex.split(line.removeprefix("again: "))
    assert program == "scanline"
    file.unlink()
    names = {"PICTURE": "picture.png", "MASK": "mask.png"}
    done(*[names.get(word, word) for word in words])


@pytest.mark.parametrize("name", SAMPLED)
def test_the_command_of_a_recipe_writes_the_same_file(folder, name):
    file = folder / name
    done("sample", "--model", "guided", "--seed", 3, *SAMPLED[name], "--out", file)
    written = file.read_bytes()
    again(file)
    assert file.read_bytes() == written


@pytest.mark.parametrize("name", COMPLETED)
def test_the_command_of_a_completion_names_the_known_pixels_by_a_digest(folder, name):
    file = folder / name
    command = ("complete", "picture.png", "--model", "guided", "-n", 2, "--seed", 3)
    done(*command, *COMPLETED[name], "--out", file)
    written = file.read_bytes()
    (digest,) = json.loads(done("recipe", file, "--json"))["known_sha256"]
    assert f"SHA-256 of what was known: {digest}" in done("recipe", file)
    again(file)
    assert file.read_bytes() == written


def test_a_picture_of_a_folder_is_one_of_those_that_its_command_paints(folder):
    done("sample", "--model", "guided", "-n", 3, "--seed", 3, "--class", "any", "--out", "images")
    file = folder / "images" / "2.png"
    written = file.read_bytes()
    assert "\nimage 2 of it, from 0\n" in done("recipe", file)
    for picture in (folder / "images").iterdir():
        if picture != file:
            picture.unlink()
    (folder / "images" / "classes.csv").unlink(missing_ok=True)
    again(file)
    assert file.read_bytes() == written


def with_text(folder, text):
    info = PngInfo()
    info.add_text("scanline", text)
    Image.new("L", (5, 7)).save(folder / "foreign.png", pnginfo=info)
    return folder / "foreign.png"


REQUEST = {"model": "guided", "seed": 3, "n": 1}
OURS = {"scanline": "0.2.0", "digest": "0" * 32, "request": REQUEST}
DAMAGED = [
    {},
    {**OURS, "request": [1]},
    {**OURS, "request": {**REQUEST, "n": "1"}},
    {**OURS, "request": {**REQUEST, "model": "a\x1b[2Jb"}},
    {**OURS, "known_sha256": 7},
    {**OURS, "known_sha256": ["\x1b[2J"]},
    {**OURS, "scale": "large"},
]


def test_files_without_a_recipe_or_with_a_damaged_one_are_refused(folder):
    nothing = "carries no recipe: scanline has not painted it, or it was edited"
    (folder / "text.png").write_text("no picture")
    deep = "[" * 20_000
    for file in (folder / "picture.png", folder / "text.png", with_text(folder, deep)):
        assert refused("recipe", file).endswith(nothing)
    for recipe in DAMAGED:
        file = with_text(folder, json.dumps(recipe))
        assert refused("recipe", file) == "the file's recipe is damaged, or of another version"
    quoted = {**OURS, "request": {**REQUEST, "model": "a; rm -rf b"}}
    file = with_text(folder, json.dumps(quoted))
    assert "--model 'a; rm -rf b' " in done("recipe", file)
