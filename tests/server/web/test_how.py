"""The tab "How it works" in a real browser: one step of an image at a time, with the numbers of the steps route."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from scanline.model.network.transformer import Transformer
from tests.support.page.visitor import Visit, Visitor
from tests.support.server.running_server import Server

ROOT = Path(__file__).parents[3]
NUMBER = r"(\S?[\d.]+)"  # the page writes a minus sign, not a hyphen


@pytest.fixture
def visitor(visit: Visit, colour_server: Server) -> Visitor:
    page = visit(f"{colour_server.url}/#how&seed=5&step=2&screen=4")
    expect(page.see("#read-cell")).to_be_visible()
    return page


def expect_step(visitor: Visitor, place: str) -> None:
    """Waits until the numbers of that step are shown."""
    expect(visitor.see("#how-place")).to_have_text(place)
    expect(visitor.see("#how")).to_have_attribute("aria-busy", "false")


def test_a_step_is_followed_forward_and_back(visitor: Visitor, colour: Transformer) -> None:
    visitor.see("#moment").focus()
    visitor.page.keyboard.press("Home")
    expect_step(visitor, "Step 1 of 36: row 1, column 1, red")
    assert not visitor.pixels("#heat-before")[..., 3].any()  # s_0 = 0
    after = visitor.pixels("#heat-s")
    assert after.shape[:2] == (colour.config.key_width, colour.config.value_width)
    assert np.array_equal(visitor.pixels("#heat-outer"), after)
    expect(visitor.see("#say-weights")).to_contain_text("at most 100 %, in row 1, column 1;")  # itself
    visitor.page.keyboard.press("ArrowRight")
    expect_step(visitor, "Step 2 of 36: row 1, column 1, green")
    assert np.array_equal(visitor.pixels("#heat-before"), after)
    visitor.see("#how-down").click()
    expect_step(visitor, "Step 14 of 36: row 2, column 1, green")
    shown = re.search(rf"= {NUMBER} \+ {NUMBER} . {NUMBER} = {NUMBER}$", visitor.see("#cell").inner_text())
    before, key, value, sum_ = (float(re.sub(r"^[^\d.]", "-", part)) for part in shown.groups())
    assert before + key * value == pytest.approx(sum_, abs=0.02 * (abs(before) + abs(key * value)))
    visitor.see("#how-last").click()
    expect(visitor.see("#how-place")).to_contain_text("Step 36 of 36")
    expect(visitor.see("#say-weights")).to_contain_text("if all were equal, each would be 2.78 %.")
    assert (visitor.pixels("#heat-weights")[..., 3] > 0).all()
    expect(visitor.see("#say-cost")).to_contain_text("of all 36 steps:")
    expect(visitor.see("#say-measured")).to_contain_text("and step 16,384 took")
    visitor.page.keyboard.press("Home")
    expect_step(visitor, "Step 1 of 36: row 1, column 1, red")
    assert np.array_equal(visitor.pixels("#heat-s"), after)


def test_another_layer_has_other_numbers_and_every_quoted_line_is_in_its_file(visitor: Visitor) -> None:
    place, state = visitor.see("#how-place").inner_text(), visitor.see("#heat-s").get_attribute("aria-label")
    visitor.see("#layer").select_option(label="2")
    expect(visitor.see("#heat-s")).not_to_have_attribute("aria-label", state or "")
    expect_step(visitor, place)
    quoted = visitor.see(".equation pre").all()
    assert len(quoted) >= 8
    for block in quoted:
        file = (block.get_attribute("aria-label") or "").removeprefix("Lines of ")
        lines = [line.strip() for line in (ROOT / file).read_text().splitlines()]
        assert {line.strip() for line in block.inner_text().splitlines()} <= set(lines)
