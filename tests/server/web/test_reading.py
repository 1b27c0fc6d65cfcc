"""One's own drawing is read after each stroke; until the first, a stroke draws itself."""

import re
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw
from playwright.sync_api import expect

from tests.server.web.test_complete import upload
from tests.server.web.test_live import stroke
from tests.support.page.visitor import Visitor
from tests.support.pictures import encode, text
from tests.support.server.json_requests import CLASSIFICATIONS, IMAGE, post
from tests.support.server.running_server import serve

WAITS = "What you draw is read after each stroke."
READ = re.compile("^Read as ")
READ_AS_SEVEN = re.compile("^Read as 7, ")


@pytest.fixture(scope="module")
def mnist():
    with serve("mnist-small", "--model=letters-small") as server:
        yield server


def says_of(answer: dict[str, Any]) -> str:
    """What the page says of a picture that the API reads so."""
    name = answer["class"]
    if name is None:
        return "Unlike what the model knows: it names no class."
    return f"Read as {name}, {100 * answer['posterior'][name]:.1f} %."


def read_of(api, image: np.ndarray) -> str:
    """The same of an image of the model `guided`."""
    answer = post(api, CLASSIFICATIONS, model="guided", image=text(encode(image)))
    return says_of(answer["data"][0])


def seen(visitor: Visitor) -> np.ndarray:
    """The picture on the canvas: the middle of its cells, all rows kept."""
    return visitor.pixels("#drawing")[5::10, 5::10, 0]


def test_a_drawing_and_a_file_are_read_as_the_api_reads_them(visit, classified, api):
    visitor = visit(f"{classified.url}/?model=guided#complete")
    visitor.expect_text("#reading-says", WAITS)
    visitor.expect_count("#reading-bars li", 2)
    visitor.fill("#rows", "7")
    for start, end in (((0.3, 0.2), (0.7, 0.2)), ((0.7, 0.2), (0.4, 0.8))):
        stroke(visitor, start, end)
        visitor.expect_text("#reading-says", read_of(api, seen(visitor)))
    upload(visitor, encode(IMAGE))
    visitor.expect_text("#reading-says", read_of(api, IMAGE))
    heights = visitor.see("#reading-bars i").evaluate_all("all => all.map(e => e.style.height)")
    assert abs(sum(float(height.rstrip("%")) for height in heights) - 100) < 0.1
    visitor.click("#clear")
    visitor.expect_text("#reading-says", WAITS)
    visitor.see("#model").select_option("plain")
    visitor.expect_hidden("#reading")


def test_a_stroke_draws_itself_until_something_is_drawn(visit, classified):
    url = f"{classified.url}/?model=guided#complete"
    visitor = visit(url, reduced_motion="no-preference")
    expect(visitor.see("#reading-says")).to_have_text(READ)
    expect(visitor.see("#live-row button").first).to_be_enabled()
    by_itself = seen(visitor)
    assert by_itself.any()
    stroke(visitor, (0.1, 0.05), (0.2, 0.05))
    visitor.click("#undo")
    visitor.expect_text("#reading-says", WAITS)
    assert not seen(visitor)[:3].any()
    visitor.page.reload()  # which keeps no drawing, as there is none
    expect(visitor.see("#reading-says")).to_have_text(READ)


def test_a_photo_of_a_digit_becomes_one_until_that_is_undone(visit, mnist):
    drawn = Image.new("L", (900, 1200), 200)
    ImageDraw.Draw(drawn).line([(300, 360), (600, 360), (420, 840)], fill=30, width=48)
    noise = np.random.default_rng(0).integers(-20, 20, (1200, 900))  # as a camera's
    photo = np.asarray(drawn) + noise
    visitor = visit(f"{mnist.url}/#complete")
    visitor.expect_ready()
    visitor.fill("#rows", "28")
    file = encode(photo.astype(np.uint8))
    upload(visitor, file)
    visitor.expect_contains("#adapted", "Made it look like a digit.")
    visitor.expect_text("#reading-says", "Read as 7, 100.0 %.")
    digit = seen(visitor)
    assert (digit[:, [0, -1]] == 0).all()  # it stands in the middle, without its paper
    assert digit.max() > 200
    visitor.click("#adapted button")
    visitor.expect_hidden("#adapted")
    assert (np.abs(seen(visitor)[0].astype(int) - 200) < 20).all()
    visitor.see("#model").select_option("letters-small")
    visitor.click("#clear")
    upload(visitor, file)
    visitor.expect_contains("#adapted", "Made it look like a character.")
    visitor.expect_text("#reading-says", READ_AS_SEVEN)
