"""How it works, in a real browser: the state that the websocket tells, as colours, at any moment of an image."""

import itertools
import time
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import expect

from scanline.model.network.transformer import Transformer
from tests.support.page_visitor import Visitor
from tests.support.running_server import PATIENCE, Server

Visit = Callable[..., Visitor]


@pytest.fixture
def watcher(visit: Visit, colour_server: Server) -> Visitor:
    visitor = visit(f"{colour_server.url}/#how")
    expect(visitor.see("#moment-shown")).to_have_text("36 of 36")
    return visitor


def watch_layer(watcher: Visitor, layer: str) -> None:
    """The same image again, to its end, with the state of another layer."""
    watcher.see("#layer").select_option(label=layer)
    label = f"The numbers of s in layer {layer}, head 1, as colours"
    expect(watcher.see("#heat-s")).to_have_attribute("aria-label", label)
    expect(watcher.see("#moment-shown")).to_have_text("36 of 36")


def watch_until_seen_on_the_way(watcher: Visitor) -> None:
    """Where the server had no time to tell before the image was done, only its last state is told."""
    deadline, layers = time.monotonic() + PATIENCE, itertools.cycle("21")
    while watcher.see("#moment").get_attribute("max") == "0":
        assert time.monotonic() < deadline, "no state but the last is ever told"
        watch_layer(watcher, next(layers))


def test_the_state_is_seen_whole(watcher: Visitor, colour: Transformer) -> None:
    s, z = watcher.pixels("#heat-s"), watcher.pixels("#heat-z")
    assert s.shape[:2] == (colour.config.key_width, colour.config.value_width)
    assert z.shape[:2] == (colour.config.key_width, 1)
    assert s[..., 3].any()
    assert (z[..., 3] > 0).all()
    assert (z[..., 0] > z[..., 2]).all()  # z is above zero, which is warm
    expect(watcher.see("#sizes")).to_contain_text("z: 8. As many after the first byte as after the last.")


def test_the_slider_goes_back(watcher: Visitor) -> None:
    watch_until_seen_on_the_way(watcher)
    assert (watcher.pixels("#watched")[..., 3] == 255).all()
    late = watcher.pixels("#heat-z")[..., 3].sum()
    watcher.see("#moment").focus()
    watcher.page.keyboard.press("Home")
    expect(watcher.see("#moment-shown")).not_to_have_text("36 of 36")
    shown = watcher.pixels("#watched")[..., 3].reshape(-1) > 0
    position = int(watcher.see("#moment-shown").inner_text().split()[0])
    assert np.array_equal(shown, np.arange(12) < position // 3)
    assert watcher.pixels("#heat-z")[..., 3].sum() < late


def test_another_layer_of_the_same_image(watcher: Visitor) -> None:
    image, state = watcher.pixels("#watched"), watcher.pixels("#heat-s")
    watch_layer(watcher, "2")
    assert np.array_equal(watcher.pixels("#watched"), image)
    assert not np.array_equal(watcher.pixels("#heat-s"), state)
