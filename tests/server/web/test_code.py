""" "View code": what a tab shows paints what the tab painted, in each language, with the picture that
the browser sends.
"""

import subprocess

import numpy as np
import pytest
from PIL import Image

from tests.server.web.test_complete import complete, hide, stroke, upload
from tests.support.page.visitor import Visitor
from tests.support.pictures import encode
from tests.support.server.json_requests import IMAGE
from tests.support.server.running_server import serve


@pytest.fixture(scope="module")
def digits(digits_directory):
    with serve(digits_directory, "--slots", "64") as server:
        yield server


def write(visitor: Visitor) -> str:
    visitor.fill("#write", "20 6")
    visitor.press("Enter")
    visitor.expect_done(3)
    return "#view-code"


def paint_a_class(visitor: Visitor) -> str:
    visitor.fill("#count", "3")
    visitor.see("#paint-class label").get_by_text("horse").click()
    visitor.expect_url("class=horse")
    visitor.expect_done(3)
    return "#view-code"


def complete_a_drawing(visitor: Visitor) -> str:
    visitor.click("#tab-complete")
    visitor.expect_ready()
    stroke(visitor, (0.2, 0.2), (0.8, 0.5))
    complete(visitor)
    return "#complete-code"


def complete_rows(visitor: Visitor) -> str:
    visitor.click("#tab-complete")
    upload(visitor, encode(IMAGE))
    complete(visitor)
    return "#complete-code"


def complete_what_a_brush_hides(visitor: Visitor) -> str:
    visitor.click("#tab-complete")
    upload(visitor, encode(IMAGE))
    hide(visitor)
    complete(visitor)
    return "#complete-code"


ACTS = [
    write,
    paint_a_class,
    complete_a_drawing,
    complete_rows,
    complete_what_a_brush_hides,
]


@pytest.mark.parametrize("act", ACTS)
def test_the_code_of_each_tab_paints_the_same_in_each_language(
    visit, digits, digits_directory, tmp_path, monkeypatch, act
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").symlink_to(digits_directory)
    visitor = visit(digits.url, done=4)
    button = act(visitor)
    visitor.click(button)
    subprocess.run(visitor.see("#code").inner_text(), shell=True, check=True, capture_output=True)
    sheet = np.asarray(Image.open("images.png"))
    (tmp_path / "images.png").unlink()
    for language in ("Python", "OpenAI client"):
        visitor.see("#code-form").get_by_text(language).click()
        exec(visitor.see("#code").inner_text(), {})  # as a user runs it
    assert np.array_equal(np.asarray(Image.open("images.png")), sheet)
    height, width = IMAGE.shape
    columns = sheet.shape[1] // width
    for number in range(3):
        top, left = height * (number // columns), width * (number % columns)
        image = np.asarray(Image.open(f"image-{number}.png"))
        assert np.array_equal(image, sheet[top : top + height, left : left + width])
