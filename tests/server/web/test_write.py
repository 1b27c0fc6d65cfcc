"""What is typed is written: one picture for each character, on one line, words apart."""

from itertools import pairwise

import httpx
import numpy as np
import pytest
from PIL import Image

from scanline.model.images.one_hand import one_hand
from tests.server.web.test_visit import MAX_SHIFT, OBSERVE, SIZES, shift
from tests.support import shapes, small_models
from tests.support.page.visitor import Visitor, painted
from tests.support.server.running_server import serve

INK = 64
BOX = "tiles => tiles.map(tile => tile.getBoundingClientRect().toJSON())"


@pytest.fixture(scope="module")
def writers(digits_directory, tmp_path_factory):
    """A server of a model of the digits 2, 0 and 6, and of one that has letters too."""
    characters = tuple((name,) for name in "Hello 2026".replace(" ", ""))
    config = small_models.config(
        height=7,
        width=5,
        layers=1,
        predicts="categorical",
        classes=tuple(dict.fromkeys(characters)),
    )
    letters = shapes.save(tmp_path_factory.mktemp("letters") / "letters", config)
    with serve(digits_directory, f"--model={letters}", "--slots", "64") as server:
        yield server


def assert_shown(tile: np.ndarray, image: np.ndarray) -> None:
    """A tile has all columns of an image that have ink, perhaps some rows higher or lower."""
    columns = np.flatnonzero((image >= INK).any(axis=0))
    letter = image[:, columns[0] : columns[-1] + 1]
    height, width = letter.shape
    for down in range(-4, 5):
        rows = slice(max(0, down), height + min(0, down))
        seen = letter[max(0, -down) : height - max(0, down)]
        for left in range(tile.shape[1] - width + 1):
            if np.array_equal(tile[rows, left : left + width], seen):
                return
    raise AssertionError((tile, letter))


def boxes(visitor: Visitor) -> list[dict]:
    return visitor.see(".tile").evaluate_all(BOX)


@pytest.mark.parametrize("size", SIZES)
def test_the_page_writes_at_once_and_each_press_in_another_hand(visit, writers, size):
    with writers.client() as client:
        visitor = visit("about:blank", *SIZES[size])
        visitor.page.add_init_script(OBSERVE)
        visitor.page.goto(writers.url)
        visitor.expect_done(4)
        assert "&guidance=1&write=2026#paint" in visitor.page.url
        sheets = []
        for _ in range(2):
            visitor.fill("#write", "2026")
            visitor.press("Enter")
            visitor.expect_done(4)
            visitor.expect_visible("#after")
            seed = int(httpx.URL(visitor.page.url).params["seed"])
            images = one_hand(painted(client, prompt="2026", seed=seed))
            for index, image in enumerate(images):
                assert_shown(visitor.gallery_image(index)[..., 0], image)
            sheets.append(np.asarray(Image.open(visitor.saved("#save-sheet"))))
        assert sheets[0].shape != sheets[1].shape or (sheets[0] != sheets[1]).any()
        assert shift(visitor) <= MAX_SHIFT
        assert Image.open(visitor.saved("#save-film")).size == (160, 56)
        visitor.page.reload()
        visitor.expect_done(4)
        visitor.expect_visible("#after")
        assert (np.asarray(Image.open(visitor.saved("#save-sheet"))) == sheets[1]).all()


@pytest.mark.parametrize("size", SIZES)
def test_words_stand_apart_and_none_is_broken(visit, writers, size):
    """By a model that has the letters, where the selected one lacks one."""
    visitor = visit("about:blank", *SIZES[size])
    visitor.page.goto(f"{writers.url}/?model=digits")
    visitor.expect_done(4)
    visitor.fill("#write", " hello  hello 2026 ")
    visitor.press("Enter")
    visitor.expect_notice("digits has no h: letters writes it.")
    visitor.expect_value("#model", "letters")
    visitor.expect_done(14)
    visitor.expect_url(r"model=letters&.*&write=Hello\+Hello\+2026#paint$")
    tiles = boxes(visitor)
    words = [tiles[:5], tiles[5:10], tiles[10:]]
    for word in words:
        for before, after in pairwise(word):
            assert after["top"] == before["top"]
            assert abs(after["left"] - before["right"]) < 0.5
    for before, after in pairwise(words):
        is_next_line = after[0]["top"] >= before[0]["bottom"] - 0.5
        assert is_next_line or after[0]["left"] > before[-1]["right"] + 1
    assert len({tile["height"] for tile in tiles}) == 1
    assert "Hello-Hello-2026" in visitor.saved("#save-sheet").name


def test_a_character_that_no_model_has_is_named(visit, writers):
    visitor = visit(f"{writers.url}/?write=2x&seed=3")
    visitor.expect_notice("digits has no x: 2 0 6 only.")
    visitor.expect_value("#model", "digits")


def test_writing_on_a_desktop_leaves_the_button_and_the_notice_in_sight(visit, writers):
    visitor = visit(f"{writers.url}/?model=letters", width=1440, height=900)
    visitor.expect_done(4)
    visitor.click("#write-form .primary")
    visitor.expect_done(4)
    assert visitor.page.evaluate("scrollY") == 0
    visitor.fill("#write", "x")
    visitor.press("Enter")
    visitor.expect_notice("letters has no x: H e l o 2 0 6 only.")
    visitor.page.evaluate("document.body.style.minHeight = '300vh'")
    visitor.page.evaluate("scrollTo(0, 600)")
    assert visitor.see("#notice").evaluate("e => e.getBoundingClientRect().top") == 0
