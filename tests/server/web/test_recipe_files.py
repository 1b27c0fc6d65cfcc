"""A file that was painted carries its recipe: dropped on the page it is painted again, and what the
page saves has the recipe that the server writes."""

import json
import re
from base64 import b64decode, b64encode
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import expect

from scanline.model.images import recipe as recipes
from tests.server.web.test_complete import complete, hide, shown, upload
from tests.server.web.test_visit import choose
from tests.server.web.test_write import writers
from tests.support.page.visitor import Visitor, painted
from tests.support.pictures import encode
from tests.support.server.json_requests import IMAGE, post
from tests.support.server.routes import EDITS, GENERATIONS

__all__ = ["writers"]  # a fixture

LARGEST = 2**63 - 1
DROP = """([name, data]) => {
    const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([bytes], name));
    document.body.dispatchEvent(new DragEvent("drop", {dataTransfer, bubbles: true, cancelable: true}));
}"""
FILM = {"frames": 3, "seconds": 0.5, "scale": 2}


def drop(visitor: Visitor, name: str, data: bytes) -> None:
    visitor.page.evaluate(DROP, [name, b64encode(data).decode()])


def file_of(client: Any, kind: str = "png", route: str = GENERATIONS, **fields: object) -> bytes:
    answer = client.post(route, json=fields, headers={"accept": f"image/{kind}"})
    assert answer.status_code == 200, answer.text
    return answer.content


def text_of(file: bytes) -> str:
    """The recipe of a PNG, as it is written."""
    return Image.open(BytesIO(file)).text["scanline"]


ASKED = {"model": "guided", "seed": LARGEST, "temperature": 0.9, "class": "7", "guidance": 1.5}


@pytest.mark.parametrize("kind", ["png", "webp", "gif", "apng"])
@pytest.mark.parametrize("tab", ["paint", "how", "device"])
def test_a_file_that_is_dropped_is_painted_again(visit, classified, api, kind, tab):
    film = FILM if kind in ("gif", "apng") else {}
    data = file_of(api, kind, n=6, **ASKED, **film)
    visitor = visit(f"{classified.url}/?model=plain&seed=1&n=2#{tab}")
    visitor.expect_ready()
    drop(visitor, "six.png", data)
    visitor.expect_notice(f"six.png is opened: 6 images of class 7, by guided, seed {LARGEST}.")
    visitor.expect_done(6)
    assert (visitor.saved_images() == painted(api, n=6, **ASKED)).all()
    for name in ("seed", "temperature", "class", "guidance"):
        assert f"{name}={ASKED[name]}" in visitor.page.url
    visitor.expect_value("#seed", str(LARGEST))
    # Back has what was there before.
    visitor.page.go_back()
    visitor.expect_url("model=plain" if tab == "paint" else f"#{tab}")


@pytest.mark.parametrize("tab", ["complete", "compress"])
def test_the_pictures_of_a_sheet_are_those_of_the_tab_that_needs_some(visit, classified, api, tab):
    prefix, field = {"complete": ("", "#upload"), "compress": ("coded-", "#coded-upload")}[tab]
    visitor = visit(f"{classified.url}/?model=plain&seed=1&n=2#{tab}")
    visitor.expect_ready()
    expect(visitor.see(f"#{prefix}thumbnails button").first).to_be_visible()
    choose(visitor, field, "six.png", file_of(api, n=6, **ASKED))
    visitor.expect_count(f"#{prefix}thumbnails button", 6)
    visitor.expect_text(f"#{prefix}examples-label", "From the file")
    images = painted(api, n=6, **ASKED)
    canvases = visitor.see(f"#{prefix}thumbnails canvas")
    for index, image in enumerate(images):
        assert (visitor.pixels(canvases.nth(index))[..., 0] == image).all()
    # The gallery has them, too.
    visitor.click("#tab-paint")
    visitor.expect_done(6)
    assert (visitor.saved_images() == images).all()


def test_what_the_page_saves_has_the_servers_recipe_and_is_opened(visit, classified, api):
    fields = {**ASKED, "class": "any", "guidance": 2, "n": 3}
    query = "&".join(f"{name}={value}" for name, value in fields.items())
    visitor = visit(f"{classified.url}/?{query}", done=3)
    answer = post(api, GENERATIONS, **fields)
    files = [b64decode(item["b64_json"]) for item in answer["data"]]
    with ZipFile(visitor.saved("#save-zip")) as archive:
        texts = [text_of(archive.read(name)) for name in archive.namelist()]
    assert texts == [text_of(file) for file in files]
    visitor.see(".tile").nth(2).click()
    image = visitor.saved("#viewer-save").read_bytes()
    assert text_of(image) == texts[2]
    visitor.press("Escape")
    saved = visitor.saved("#save-sheet").read_bytes()
    whole = json.loads(text_of(file_of(api, **fields)))
    assert json.loads(text_of(saved)) == {**whole, "scale": 4}
    assert text_of(saved).startswith(text_of(file_of(api, **fields)).partition(', "columns"')[0])
    visitor.page.goto(f"{classified.url}/?model=plain&seed=1&n=2")
    visitor.expect_done(2)
    visitor.see("#open").set_input_files(
        {"name": "sheet.png", "mimeType": "image/png", "buffer": saved}
    )
    visitor.expect_done(3)
    assert (visitor.saved_images() == painted(api, **fields)).all()
    # One image of them is that image of as many of its class.
    drop(visitor, "one.png", image)
    visitor.expect_contains("#notice", "one.png is opened: image 3 of class ")
    expected = np.asarray(Image.open(BytesIO(image)).convert("L"))
    expect(visitor.see("#paint-meter")).to_have_text(re.compile("^3 of 3 images"))
    visitor.expect_contains("#paint-meter", " bits/dim")
    assert (visitor.saved_images()[2] == expected).all()


def test_what_is_written_comes_back_with_its_blanks(visit, writers):
    visitor = visit(f"{writers.url}/?model=letters&seed={LARGEST}&write=Hello+2026", done=9)
    saved = visitor.saved("#save-sheet").read_bytes()
    images = visitor.saved_images()
    visitor.page.goto(f"{writers.url}/?seed=1&n=2&class=2#paint")
    visitor.expect_done(2)
    drop(visitor, "word.png", saved)
    visitor.expect_notice(f"word.png is opened: “Hello 2026”, by letters, seed {LARGEST}.")
    visitor.expect_done(9)
    assert (visitor.saved_images() == images).all()
    assert "write=Hello+2026" in visitor.page.url
    visitor.expect_value("#write", "Hello 2026")
    with writers.client() as client:
        listed = file_of(client, model="letters", seed=5, **{"class": ["2", "0"]})
    drop(visitor, "listed.png", listed)
    visitor.expect_notice("listed.png is opened: “20”, by letters, seed 5.")


def test_a_completion_brings_its_picture_back(visit, classified, api):
    visitor = visit(f"{classified.url}/?model=guided#complete")
    upload(visitor, encode(IMAGE))
    visitor.fill("#rows", "3")
    complete(visitor, 3)
    before = np.array(shown(visitor))
    visitor.see("#results button").nth(3).click()
    saved = visitor.saved("#viewer-save").read_bytes()
    fields = {"model": "guided", "image": b64encode(encode(IMAGE)).decode(), "seed": 5}
    fields |= {"keep_rows": 3, "n": 3, "particles": 1, "temperature": 0.97, "guidance": 1}
    item = post(api, EDITS, **fields)["data"][2]
    assert text_of(saved) == text_of(b64decode(item["b64_json"]))
    visitor.page.goto(f"{classified.url}/?model=plain&seed=1&n=2#paint")
    visitor.expect_done(2)
    drop(visitor, "one.png", saved)
    visitor.expect_notice("one.png is opened: completion 3, by guided, seed 5.")
    visitor.expect_done(3, "#complete-meter")
    after = np.array(shown(visitor))
    assert (after[2:] == before[2:]).all()
    assert (after[1, :3] == before[1, :3]).all()
    assert (after[0, 3:, :, :3] == 0).all()  # the hidden pixels are not in the file


def test_hidden_pixels_come_back_from_a_mask(visit, classified, api):
    visitor = visit(f"{classified.url}/?model=plain#complete")
    upload(visitor, encode(IMAGE))
    hide(visitor)
    visitor.unfold()
    visitor.see("#particles label").get_by_text("4", exact=True).click()
    complete(visitor, 2)
    before = np.array(shown(visitor))
    given = before[1, ..., 3] == 255
    mask = b64encode(encode(np.where(given, 255, 0).astype(np.uint8))).decode()
    fields = {"model": "plain", "image": b64encode(encode(IMAGE)).decode(), "mask": mask}
    sheet = file_of(api, "webp", EDITS, **fields, n=2, seed=5, particles=4)
    assert recipes.read(sheet)["mask"]
    visitor.page.goto(f"{classified.url}/?model=guided&seed=1&n=2#how")
    visitor.expect_ready()
    drop(visitor, "two.webp", sheet)
    visitor.expect_notice("two.webp is opened: 2 completions, by plain, seed 5.")
    visitor.expect_done(2, "#complete-meter")
    after = np.array(shown(visitor))
    assert (after[1:] == before[1:]).all()


def with_recipe(recipe: object, picture: Image.Image | None = None) -> bytes:
    info = PngInfo()
    info.add_text("scanline", recipe if isinstance(recipe, str) else json.dumps(recipe))
    out = BytesIO()
    (picture or Image.new("L", (5, 7))).save(out, "PNG", pnginfo=info)
    return out.getvalue()


def test_what_cannot_be_painted_again_is_a_sentence_and_changes_nothing(visit, classified, api):
    visitor = visit(f"{classified.url}/?model=guided&seed=1&n=2&class=7", done=2)
    before = (visitor.page.url, visitor.saved_images())
    data = file_of(api, n=2, **ASKED)
    recipe = recipes.read(data)
    request = recipe["request"]

    def changed(**fields):
        return {**recipe, "request": {**request, **fields}}

    see = "which the page does not have: see “scanline recipe”."
    cases = {
        "text.png": (b"no picture", "The browser cannot read text.png as an image."),
        "cut.png": (data[:-20], "cut.png was cut off: its end is missing."),
        "short.png": (data[:50], "The browser cannot read short.png as an image."),
        "odd.png": (with_recipe("{"), "The recipe in odd.png is damaged, or of another version."),
        "long.png": (
            with_recipe(json.dumps({**recipe, "more": 2**15 * "a"})),
            "The recipe in long.png is damaged, or of another version.",
        ),
        "served.png": (
            with_recipe({**changed(model="other"), "digest": "0" * 32}),
            "served.png was painted by other, which this server does not have.",
        ),
        "weights.png": (
            with_recipe({**recipe, "digest": "0" * 32}),
            "weights.png was painted with other weights of guided than this server has, or was computed otherwise:"
            " its pictures cannot be painted again here.",
        ),
        "newer.png": (
            with_recipe({**changed(top_p=0.5), "scanline": "9.0"}),
            "newer.png was painted by scanline 9.0, and asks for top_p, which this page does not know.",
        ),
        "most.png": (with_recipe(changed(n=1025)), f"most.png was painted with n 1025, {see}"),
        "warm.png": (
            with_recipe(changed(temperature=0.905)),
            f"warm.png was painted with temperature 0.905, {see}",
        ),
        "each.png": (
            with_recipe({**recipe, "each": "class"}),
            "each.png has a row for each class, which the page does not paint: see “scanline recipe”.",
        ),
        "known.png": (
            with_recipe({**changed(keep_rows=3, particles=1), "known_sha256": ["0" * 64]}),
            "known.png does not have the picture that it completes, byte for byte.",
        ),
    }
    for name, (content, sentence) in cases.items():
        drop(visitor, name, content)
        visitor.expect_notice(sentence)
        assert visitor.page.url == before[0]
    assert (visitor.saved_images() == before[1]).all()


def test_the_same_weights_of_another_version_paint_it_again(visit, classified, api):
    visitor = visit(f"{classified.url}/?model=plain&seed=1&n=2", done=2)
    data = file_of(api, n=2, **ASKED)
    recipe = {**recipes.read(data), "scanline": "0.0.1", "digest": "0" * 32}
    older = with_recipe(recipe, Image.open(BytesIO(data)))
    drop(visitor, "older.png", older)
    visitor.expect_notice(f"older.png is opened: 2 images of class 7, by guided, seed {LARGEST}.")
    visitor.expect_done(2)
    assert (visitor.saved_images() == painted(api, n=2, **ASKED)).all()
