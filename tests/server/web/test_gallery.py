"""The canvas of the gallery, in a real browser: what it shows, where, and how often it is drawn."""

from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from scanline.model.formats.checkpoint import save_model
from tests.support import small_models
from tests.support.page.visitor import Visit, painted
from tests.support.server.running_server import Server, serve
from tests.support.sweeps import and_slow

WIDE = {"layers": 2, "heads": 8, "key_width": 32, "value_width": 32, "feed_forward": 512}
LONG = small_models.config(height=60, width=60, **WIDE)  # seconds: several redraws, also beside other programs
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
def long_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("gallery") / "long"
    save_model(small_models.model(LONG), directory)
    with serve(directory) as server:
        yield server


def grey(image: np.ndarray) -> np.ndarray:
    """The opaque pixels [H, W, 4] of a grey image [H, W]."""
    return np.stack((image, image, image, np.full_like(image, 255)), -1)


@pytest.mark.parametrize("n", and_slow([7], 1, 64))
def test_one_canvas_shows_each_image_over_its_button_at_every_window_size(
    visit: Visit, server: Server, client: httpx.Client, n: int
) -> None:
    visitor = visit(f"{server.url}/?seed=3&n={n}")
    visitor.expect_done(n)
    images = painted(client, n=n, seed=3)
    assert visitor.see("#gallery canvas").count() == 1
    sizes = {1: 220, 7: 220, 64: 65}  # CSS pixels of an image's width: large, in full rows where there are many
    assert visitor.see(".tile").first.evaluate("tile => tile.clientWidth") == sizes[n]
    for width in (1280, 360, 700):
        visitor.page.set_viewport_size({"width": width, "height": 800})
        # sizes are fitted before the next frame is rendered
        visitor.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert visitor.page.evaluate("document.scrollingElement.scrollWidth") <= width
        for index in {0, n // 2, n - 1}:
            assert (visitor.gallery_image(index) == grey(images[index])).all()
        opaque = (visitor.pixels("#sheet")[..., 3] == 255).sum()
        assert opaque == images.size, "an image is drawn over another one, or twice"


@pytest.mark.parametrize("density", and_slow([2.625], 1, 1.5))
def test_image_pixels_are_whole_numbers_of_device_pixels(visit: Visit, server: Server, density: float) -> None:
    visitor = visit(f"{server.url}/?seed=3&n=7", device_scale_factor=density)
    visitor.expect_done(7)
    canvas = visitor.see("#sheet")
    size = canvas.evaluate("canvas => canvas.getBoundingClientRect().toJSON()")
    height, width, _ = visitor.pixels("#sheet").shape
    scale = size["width"] * density / width
    assert scale == pytest.approx(round(scale), abs=0.02)
    assert size["height"] / height == pytest.approx(size["width"] / width, rel=0.01)
    assert canvas.evaluate("canvas => getComputedStyle(canvas).imageRendering") == "pixelated"
    assert visitor.gallery_image(6).shape[:2] == (7, 5)


def test_a_click_on_an_image_opens_that_image(visit: Visit, server: Server) -> None:
    """The canvas lies above the buttons and lets clicks and taps through."""
    visitor = visit(f"{server.url}/?seed=3&n=7", has_touch=True)
    visitor.expect_done(7)
    for press in (visitor.page.mouse.click, visitor.page.touchscreen.tap):
        for index in (0, 5):
            tile = visitor.see(".tile").nth(index)
            tile.scroll_into_view_if_needed()
            box = tile.bounding_box()
            assert box is not None
            press(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            expect(visitor.see("#viewer-title")).to_have_text(f"Image {index + 1} of 7")
            visitor.see("#viewer-close").click()


def test_images_of_an_unfinished_job_are_shown_and_named_so(visit: Visit, long_server: Server) -> None:
    visitor = visit(f"{long_server.url}/?seed=3&n=16")
    first = visitor.see(".tile").first
    expect(first).to_have_accessible_name("Image 1, not finished")
    visitor.see("#paint-stop").click()
    expect(visitor.see("#paint-status")).to_have_text("Stopped.")
    unpainted = visitor.gallery_image(1)[..., 3].reshape(-1) == 0
    assert (np.diff(unpainted.astype(int)) >= 0).all(), "pixels are not shown in the order in which they are painted"
    first.click()
    expect(visitor.see("#viewer-figures")).to_contain_text("not finished")
    expect(visitor.see("#viewer-complete")).to_be_disabled()


def test_the_gallery_is_drawn_at_most_ten_times_a_second(visit: Visit, long_server: Server) -> None:
    visitor = visit("about:blank")
    visitor.page.add_init_script(RECORD_DRAWS)
    visitor.page.goto(f"{long_server.url}/?seed=3&n=2")
    visitor.expect_done(2)
    draws = visitor.page.evaluate("window.draws")
    assert len(draws) > 2, "the gallery is not drawn while its images are painted"
    # one redraw at each end may come without the pause
    assert len(draws) - 2 <= (draws[-1] - draws[0]) / PAUSE + 1
