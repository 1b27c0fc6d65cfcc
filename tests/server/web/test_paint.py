"""Paint, in a real browser: the page shows and saves what the API
returns; the canvas of its gallery.
"""

import re
import signal
import subprocess
import zipfile
from io import BytesIO
from os import kill

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from scanline.model.formats.checkpoint import save_model
from scanline.model.images.contact_sheet import sheet
from tests.support import small_models
from tests.support.page.visitor import painted
from tests.support.server.running_server import serve
from tests.support.sweeps import and_slow

LARGEST = 2**63 - 1
CLIP = "element => getComputedStyle(element).clipPath"


def test_the_page_paints_when_it_is_opened_and_its_url_paints_the_same(visit, server):
    visitor = visit(server.url, done=32)
    visitor.expect_count(".tile.done", 32)
    visitor.expect_contains("#facts", "grey: 5 \u00d7 7 grey ")
    assert re.fullmatch(r".*/\?model=grey&seed=\d+&temperature=1&n=32#paint", visitor.page.url)
    second = visit(visitor.page.url, done=32)
    assert (visitor.saved_images() == second.saved_images()).all()


def test_colour_images_are_painted(visit, colour_server, colour_client):
    visitor = visit(f"{colour_server.url}/?seed={LARGEST}&temperature=0.8&n=4", done=4)
    images = painted(colour_client, n=4, seed=LARGEST, temperature=0.8)
    assert (visitor.saved_images() == images).all()
    assert (visitor.gallery_image(3)[..., :3] == images[3]).all()


def test_images_are_enlarged_and_saved_one_by_one_and_together_and_shown_as_code(
    visit,
    server,
    client,
    tmp_path,
    monkeypatch,
):
    visitor = visit(f"{server.url}/?seed=3&n=5", done=5)
    visitor.see(".tile").nth(2).click()
    visitor.expect_text("#viewer-title", "Image 3 of 5")
    image = np.asarray(Image.open(visitor.saved("#viewer-save")).convert("L"))
    assert (image == painted(client, n=5, seed=3)[2]).all()
    visitor.press("ArrowRight")
    visitor.click("#viewer-next")
    visitor.press("ArrowRight")  # there is no sixth
    visitor.expect_text("#viewer-title", "Image 5 of 5")
    visitor.press("Escape")
    expect(visitor.see(".tile").nth(4)).to_be_focused()
    saved = np.asarray(Image.open(visitor.saved("#save-sheet")).convert("L"))
    assert (saved == sheet(painted(client, n=5, seed=3), scale=4)).all()
    with zipfile.ZipFile(visitor.saved("#save-zip")) as archive:
        assert archive.testzip() is None
        files = [
            np.asarray(Image.open(BytesIO(archive.read(name))).convert("L"))
            for name in archive.namelist()
        ]
    assert (np.array(files) == painted(client, n=5, seed=3)).all()
    film = client.post(
        "/v1/images/generations", json={"n": 5, "seed": 3}, headers={"accept": "image/gif"}
    )
    assert visitor.saved("#save-film").read_bytes() == film.content
    visitor.expect_text("#save-film", "Save film (GIF)")

    # The code that the page shows paints the same.
    visitor.click("#view-code")
    subprocess.run(
        visitor.see("#code").inner_text(), shell=True, check=True, cwd=tmp_path, capture_output=True
    )
    shown = np.asarray(Image.open(tmp_path / "images.png"))
    assert (shown == sheet(painted(client, n=5, seed=3))).all()
    visitor.see("#code-form").get_by_text("OpenAI client").click()
    monkeypatch.chdir(tmp_path)
    exec(visitor.see("#code").inner_text(), {})  # as a user runs it
    assert (
        np.asarray(Image.open(tmp_path / "image-4.png")) == painted(client, n=5, seed=3)[4]
    ).all()


def test_repeat_paints_the_same_and_a_new_seed_other_images(visit, server):
    visitor = visit(f"{server.url}/?seed=3&n=4", done=4)
    first = visitor.saved_images()
    visitor.click("#again")
    visitor.expect_visible("#after")
    visitor.expect_done(4)
    assert (visitor.saved_images() == first).all()
    visitor.fill("#seed", "")
    visitor.click("#paint-form .primary")
    expect(visitor.page).not_to_have_url(re.compile("seed=3&"))
    visitor.expect_done(4)
    assert (visitor.saved_images() != first).any()


def test_a_job_can_be_stopped(visit, server, client):
    visitor = visit(f"{server.url}/?seed=3&n=4", done=4)
    engine = server.engine
    kill(engine, signal.SIGSTOP)  # the job must not end before Stop is pressed
    try:
        visitor.fill("#count", "200")
        visitor.click("#paint-form .primary")
        visitor.expect_count(".tile", 200)
        visitor.click("#paint-stop")
        visitor.expect_text("#paint-status", "Stopped.")
        visitor.expect_hidden("#paint-stop")
        visitor.expect_hidden("#after")
    finally:
        kill(engine, signal.SIGCONT)
    visitor.fill("#count", "2")
    visitor.click("#paint-form .primary")
    visitor.expect_done(2)


def test_a_new_job_replaces_the_running_one(visit, server, client):
    visitor = visit(f"{server.url}/?seed=3&n=4", done=4)
    engine = server.engine
    kill(engine, signal.SIGSTOP)  # the first job must not end before the second is sent
    try:
        for count, seed in (("200", "4"), ("5", "6")):
            visitor.fill("#count", count)
            visitor.fill("#seed", seed)
            visitor.click("#paint-form .primary")
            visitor.expect_count(".tile", int(count))
    finally:
        kill(engine, signal.SIGCONT)
    visitor.expect_done(5)
    visitor.expect_hidden("#paint-stop")
    assert (visitor.saved_images() == painted(client, n=5, seed=6)).all()


def test_figures_and_settings_are_folded(visit, classified):
    visitor = visit(f"{classified.url}/?model=guided&seed=3&n=4&class=any", done=4)
    visitor.expect_contains("#paint-says", "4 images in ")
    visitor.expect_hidden("#paint-meter")
    visitor.expect_hidden("#seed")
    bits = visitor.see(".bits span").first
    assert bits.evaluate(CLIP) == "inset(50%)"  # only the class is seen
    before = visitor.see(".tile").last.bounding_box()
    visitor.click("#paint-figures summary")
    visitor.expect_visible("#paint-meter")
    assert bits.evaluate(CLIP) == "none"
    assert visitor.see(".tile").last.bounding_box()["width"] == before["width"]


def test_arrow_keys_move_in_the_gallery(visit, server):
    visitor = visit(f"{server.url}/?seed=3&n=4", done=4)
    visitor.see(".tile").first.focus()
    for key, index in (
        ("ArrowRight", 1),
        ("End", 3),
        ("ArrowRight", 3),
        ("ArrowLeft", 2),
        ("Home", 0),
    ):
        visitor.press(key)
        expect(visitor.see(".tile").nth(index)).to_be_focused()
    visitor.press("Enter")
    visitor.expect_text("#viewer-title", "Image 1 of 4")


WIDE = {"layers": 2, "heads": 8, "key_width": 32, "value_width": 32, "feed_forward": 512}
# seconds: several redraws, also beside other programs
LONG = small_models.config(height=60, width=60, **WIDE)
PAUSE = 0.1  # seconds between two redraws
RECORD_DRAWS = """
    const put = CanvasRenderingContext2D.prototype.putImageData;
    window.draws = [];
    CanvasRenderingContext2D.prototype.putImageData = function (...values) {
        if (this.canvas.id === "sheet") window.draws.push(performance.now() / 1000);
        put.apply(this, values);
    };
"""


@pytest.fixture(scope="module")
def long_server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("gallery") / "long"
    save_model(small_models.model(LONG), directory)
    with serve(directory) as server:
        yield server


def grey(image: np.ndarray) -> np.ndarray:
    """The opaque pixels [H, W, 4] of a grey image [H, W]."""
    return np.stack((image, image, image, np.full_like(image, 255)), -1)


@pytest.mark.parametrize("n", and_slow([7], 1, 64))
def test_one_canvas_shows_each_image_over_its_button(visit, server, client, n):
    visitor = visit(f"{server.url}/?seed=3&n={n}", done=n)
    images = painted(client, n=n, seed=3)
    assert visitor.see("#gallery canvas").count() == 1
    # CSS pixels of an image's width: large, in full rows where there are many
    sizes = {1: 220, 7: 220, 64: 65}
    assert visitor.see(".tile").first.evaluate("tile => tile.clientWidth") == sizes[n]
    for width in (1280, 360, 700):
        visitor.page.set_viewport_size({"width": width, "height": 800})
        # sizes are fitted before the next frame is rendered
        visitor.page.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        assert visitor.page.evaluate("document.scrollingElement.scrollWidth") <= width
        for index in {0, n // 2, n - 1}:
            assert (visitor.gallery_image(index) == grey(images[index])).all()
        opaque = (visitor.pixels("#sheet")[..., 3] == 255).sum()
        assert opaque == images.size, "an image is drawn over another one, or twice"


@pytest.mark.parametrize("density", and_slow([2.625], 1, 1.5))
def test_image_pixels_are_whole_numbers_of_device_pixels(visit, server, density):
    visitor = visit(f"{server.url}/?seed=3&n=7", device_scale_factor=density, done=7)
    canvas = visitor.see("#sheet")
    size = canvas.evaluate("canvas => canvas.getBoundingClientRect().toJSON()")
    height, width, _ = visitor.pixels("#sheet").shape
    scale = size["width"] * density / width
    assert scale == pytest.approx(round(scale), abs=0.02)
    assert size["height"] / height == pytest.approx(size["width"] / width, rel=0.01)
    assert canvas.evaluate("canvas => getComputedStyle(canvas).imageRendering") == "pixelated"
    assert visitor.gallery_image(6).shape[:2] == (7, 5)


def test_a_click_on_an_image_opens_that_image(visit, server):
    """The canvas lies above the buttons and lets clicks and taps through."""
    visitor = visit(f"{server.url}/?seed=3&n=7", has_touch=True, done=7)
    for press in (visitor.page.mouse.click, visitor.page.touchscreen.tap):
        for index in (0, 5):
            tile = visitor.see(".tile").nth(index)
            tile.scroll_into_view_if_needed()
            box = tile.bounding_box()
            press(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            visitor.expect_text("#viewer-title", f"Image {index + 1} of 7")
            visitor.click("#viewer-close")


def test_images_of_an_unfinished_job_are_shown_and_named_so(visit, long_server):
    visitor = visit(f"{long_server.url}/?seed=3&n=16")
    first = visitor.see(".tile").first
    expect(first).to_have_accessible_name("Image 1, not finished")
    visitor.click("#paint-stop")
    visitor.expect_text("#paint-status", "Stopped.")
    unpainted = visitor.gallery_image(1)[..., 3].reshape(-1) == 0
    assert (np.diff(unpainted.astype(int)) >= 0).all(), (
        "pixels are not shown in the order in which they are painted"
    )
    first.click()
    visitor.expect_contains("#viewer-figures", "not finished")
    visitor.expect_disabled("#viewer-complete")


def test_the_gallery_is_drawn_at_most_ten_times_a_second(visit, long_server):
    visitor = visit("about:blank")
    visitor.page.add_init_script(RECORD_DRAWS)
    visitor.page.goto(f"{long_server.url}/?seed=3&n=2")
    visitor.expect_done(2)
    draws = visitor.page.evaluate("window.draws")
    assert len(draws) > 2, "the gallery is not drawn while its images are painted"
    # one redraw at each end may come without the pause
    assert len(draws) - 2 <= (draws[-1] - draws[0]) / PAUSE + 1
