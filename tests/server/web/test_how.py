"""The tab "How it works" in a real browser: one step of an image at a time,
with the numbers of the steps route.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.server.web.test_complete import upload
from tests.support.page.visitor import Visitor
from tests.support.pictures import encode
from tests.support.server.json_requests import IMAGE

ROOT = Path(__file__).parents[3]
NUMBER = r"(\S?[\d.]+)"  # the page writes a minus sign, not a hyphen
READ = "Orange is what this head reads, beyond the window too. Point at a pixel for its weight."
VALUES = "Point at a pixel for its value."
LEGENDS = [VALUES, VALUES, VALUES, VALUES, READ, VALUES, VALUES]  # of the screens
READING = 4


@pytest.fixture
def visitor(visit, colour_server):
    page = visit(f"{colour_server.url}/#how&seed=5&step=2&screen=4")
    page.expect_visible("#read-cell")
    return page


def expect_step(visitor: Visitor, place: str) -> None:
    """Waits until the numbers of that step are shown."""
    visitor.expect_text("#how-place", place)
    visitor.expect_attribute("#how", "aria-busy", "false")


def test_a_step_is_followed_forward_and_back(visitor, colour):
    visitor.see("#moment").focus()
    visitor.press("Home")
    expect_step(visitor, "Step 1 of 36: row 1, column 1, red")
    assert not visitor.pixels("#heat-before")[..., 3].any()  # s_0 = 0
    after = visitor.pixels("#heat-s")
    assert after.shape[:2] == (colour.config.key_width, colour.config.value_width)
    assert np.array_equal(visitor.pixels("#heat-outer"), after)
    # itself
    visitor.expect_contains("#say-weights", "at most 100 %, in row 1, column 1;")
    visitor.press("ArrowRight")
    expect_step(visitor, "Step 2 of 36: row 1, column 1, green")
    assert np.array_equal(visitor.pixels("#heat-before"), after)
    visitor.click("#how-down")
    expect_step(visitor, "Step 14 of 36: row 2, column 1, green")
    shown = re.search(
        rf"= {NUMBER} \+ {NUMBER} . {NUMBER} = {NUMBER}$", visitor.see("#cell").inner_text()
    )
    before, key, value, sum_ = (float(re.sub(r"^[^\d.]", "-", part)) for part in shown.groups())
    assert before + key * value == pytest.approx(sum_, abs=0.02 * (abs(before) + abs(key * value)))
    visitor.click("#how-last")
    visitor.expect_contains("#how-place", "Step 36 of 36")
    visitor.expect_contains("#say-weights", "if all were equal, each would be 2.78 %.")
    assert (visitor.pixels("#heat-weights")[..., 3] > 0).all()
    visitor.expect_contains("#say-cost", "of all 36 steps:")
    visitor.expect_contains("#say-measured", "and step 16,384 took")
    visitor.press("Home")
    expect_step(visitor, "Step 1 of 36: row 1, column 1, red")
    assert np.array_equal(visitor.pixels("#heat-s"), after)


def test_the_picture_shows_what_is_read_and_a_pixel_its_weight(visitor):
    visitor.press("End")  # the link has the focus on the slider
    expect_step(visitor, "Step 36 of 36: row 3, column 4, blue")
    for screen, legend in enumerate(LEGENDS):
        visitor.see("#screens label").nth(screen).click()
        visitor.expect_text("#how-pixel", legend)
    visitor.see("#screens label").nth(READING).click()
    visitor.expect_text("#how-pixel", READ)
    total = 0.0
    box = visitor.see("#watched").bounding_box()
    assert box
    for pixel in range(12):
        row, column = divmod(pixel, 4)
        x = (column + 0.5) * box["width"] / 4
        y = (row + 0.5) * box["height"] / 3
        visitor.page.mouse.move(box["x"] + x, box["y"] + y)
        visitor.expect_contains("#how-pixel", f"Row {row + 1}, column {column + 1}: ")
        total += float(
            visitor.see("#how-pixel").inner_text().split("weight ")[1].removesuffix(" %")
        )
    assert total == pytest.approx(100, abs=1)


def test_each_part_of_the_whole_opens_its_screen(visitor, colour):
    visitor.see("#screens label").first.click()
    visitor.expect_url("&screen=0$")
    config = colour.config
    visitor.expect_text("#whole-embedding", f"{config.model_width} numbers")
    visitor.expect_text("#whole-blocks", f"{config.layers} blocks of {config.heads} heads")
    assert np.array_equal(visitor.pixels("#whole-s"), visitor.pixels("#heat-s"))
    parts = visitor.see("#how .stages > .shown button[value]")
    opened = []
    for part in parts.all():
        part.click()
        opened.append(int(visitor.page.url.split("&screen=")[1]))
        visitor.expect_visible(f".stages > li:nth-child({1 + opened[-1]})")
        visitor.expect_focused(f"#screens input[value='{opened[-1]}']")
        visitor.see("#screens label").first.click()
    assert opened == [1, 2, 3, 4, 5, 6]


def test_a_drawing_and_a_painted_picture_are_followed(visit, server):
    visitor = visit(f"{server.url}/?seed=3&n=3", done=3)
    images = visitor.saved_images()
    visitor.see(".tile").nth(1).click()
    visitor.click("#viewer-follow")
    visitor.expect_focused("#tab-how")
    expect_followed(visitor, images[1])
    visitor.click("#tab-complete")
    visitor.expect_disabled("#follow")
    upload(visitor, encode(IMAGE))
    visitor.click("#follow")
    expect_followed(visitor, IMAGE)
    link = visitor.page.url
    visitor.page.goto("about:blank")
    visitor.page.goto(link)
    expect_followed(visitor, IMAGE)
    visitor.page.goto(link.replace("&image=", "&image=AAAA"))
    visitor.expect_notice("The picture of this link does not have the size of the model's images.")


def expect_followed(visitor: Visitor, image: np.ndarray) -> None:
    """The last step of an image of the visitor is shown."""
    visitor.expect_text("#how-status", "Your picture, read without a class.")
    visitor.click("#how-last")
    last = int(image.reshape(-1)[-1])
    visitor.expect_text("#whole-byte", str(last))
    visitor.expect_contains("#say-draw", f"the pixel is {last}, which had probability")


def test_the_race_ends_where_the_recorded_times_say(visitor):
    """Its sums are those of numpy; without motion, and on paper, its end is shown."""
    recorded = json.loads((ROOT / "server/web/src/how/step_times.json").read_text())
    steps = np.arange(1, recorded["steps"][-1] + 1)
    linear, softmax = (
        np.interp(steps, recorded["steps"], recorded[name]).cumsum() / 1000
        for name in ("linear", "softmax")
    )
    behind = np.searchsorted(softmax, linear[-1], side="right")
    sentence = f"Pixels after {linear[-1]:.0f} s: 16,384 with (s, z), {behind:,} with softmax"
    visitor.see("#screens label").last.click()
    visitor.expect_text("#race-place", sentence)
    visitor.expect_contains(
        "#say-race", f"{linear[-1]:.0f} s with (s, z) and {softmax[-1]:.0f} s with softmax"
    )
    assert behind < 8192
    visitor.page.emulate_media(reduced_motion="no-preference")
    visitor.page.clock.install()
    visitor.click("#race-go")
    visitor.page.clock.run_for(1000)
    expect(visitor.see("#race-place")).not_to_have_text(sentence)
    visitor.page.clock.run_for(4500)
    visitor.expect_text("#race-place", sentence)
    visitor.page.emulate_media(media="print")
    visitor.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for part in (".equation", "#say-window", "#heat-s", "#bars"):
        expect(visitor.see(part).first).to_be_visible()
    visitor.expect_hidden("#screens")


def test_another_layer_has_other_numbers_and_every_quoted_line_is_in_its_file(visitor):
    place, state = (
        visitor.see("#how-place").inner_text(),
        visitor.see("#heat-s").get_attribute("aria-label"),
    )
    visitor.see("#layer").select_option(label="2")
    expect(visitor.see("#heat-s")).not_to_have_attribute("aria-label", state or "")
    expect_step(visitor, place)
    quoted = visitor.see(".equation pre").all()
    assert len(quoted) >= 6
    for block in quoted:
        file = (block.get_attribute("aria-label") or "").removeprefix("Lines of ")
        lines = [line.strip() for line in (ROOT / file).read_text().splitlines()]
        assert {line.strip() for line in block.inner_text().splitlines()} <= set(lines)
