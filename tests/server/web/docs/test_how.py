"""The tab "How it works" in a real browser: heat maps of the state snapshots that the websocket sends."""

import itertools
import time

import numpy as np
import pytest
from playwright.sync_api import expect

from scanline.model.network.transformer import Transformer
from tests.support.page.visitor import Visit, Visitor
from tests.support.server.running_server import PATIENCE, Server


@pytest.fixture
def visitor(visit: Visit, colour_server: Server) -> Visitor:
    page = visit(f"{colour_server.url}/#how")
    expect(page.see("#moment-shown")).to_have_text("36 of 36")
    return page


def select_layer(visitor: Visitor, layer: str) -> None:
    """Selects a layer and waits until the same image is painted again, to its end."""
    visitor.see("#layer").select_option(label=layer)
    label = f"Heat map of s in layer {layer}, head 1"
    expect(visitor.see("#heat-s")).to_have_attribute("aria-label", label)
    expect(visitor.see("#moment-shown")).to_have_text("36 of 36")


def wait_for_several_snapshots(visitor: Visitor) -> None:
    """Paints again until there are several: of an image that is painted fast, the server may send only the last."""
    deadline, layers = time.monotonic() + PATIENCE, itertools.cycle("21")
    while visitor.see("#moment").get_attribute("max") == "0":
        assert time.monotonic() < deadline, "the server never sends more than one snapshot"
        select_layer(visitor, next(layers))


def test_the_heat_maps_show_the_whole_state(visitor: Visitor, colour: Transformer) -> None:
    s, z = visitor.pixels("#heat-s"), visitor.pixels("#heat-z")
    assert s.shape[:2] == (colour.config.key_width, colour.config.value_width)
    assert z.shape[:2] == (colour.config.key_width, 1)
    assert s[..., 3].any()
    assert (z[..., 3] > 0).all()
    assert (z[..., 0] > z[..., 2]).all()  # z is positive, which is a warm colour
    expect(visitor.see("#sizes")).to_contain_text("z: 8. The size is the same after every step.")


def test_the_slider_shows_earlier_states(visitor: Visitor) -> None:
    wait_for_several_snapshots(visitor)
    assert (visitor.pixels("#watched")[..., 3] == 255).all()
    late = visitor.pixels("#heat-z")[..., 3].sum()
    visitor.see("#moment").focus()
    visitor.page.keyboard.press("Home")
    expect(visitor.see("#moment-shown")).not_to_have_text("36 of 36")
    shown = visitor.pixels("#watched")[..., 3].reshape(-1) > 0
    position = int(visitor.see("#moment-shown").inner_text().split()[0])
    assert np.array_equal(shown, np.arange(12) < position // 3)
    assert visitor.pixels("#heat-z")[..., 3].sum() < late


def test_another_layer_shows_another_state_of_the_same_image(visitor: Visitor) -> None:
    image, state = visitor.pixels("#watched"), visitor.pixels("#heat-s")
    select_layer(visitor, "2")
    assert np.array_equal(visitor.pixels("#watched"), image)
    assert not np.array_equal(visitor.pixels("#heat-s"), state)
