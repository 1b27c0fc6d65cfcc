"""Trouble, in a real browser: every refusal in words, keys asked for, connections that drop."""

import re
import signal
from collections.abc import Callable
from os import kill

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from tests.server.web.conftest import KEY
from tests.server.web.test_paint import painted
from tests.support.page_proxy import wire_to
from tests.support.page_visitor import Visitor
from tests.support.running_server import Server

Visit = Callable[..., Visitor]
MISTAKES = {  # label: field, what is written there, what is said
    "no images": ("#count", "0", "The number of images is a whole number from 1 to 256."),
    "too many": ("#count", "257", "The number of images is a whole number from 1 to 256."),
    "not a number": ("#seed", "seven", "A seed is a whole number from 0 to 9223372036854775807."),
    "too large": ("#seed", str(2**63), "A seed is a whole number from 0 to 9223372036854775807."),
}


@pytest.mark.parametrize("label", MISTAKES)
def test_a_mistake_is_said_and_shown(visit: Visit, server: Server, label: str) -> None:
    field, text, said = MISTAKES[label]
    visitor = visit(f"{server.url}/?seed=3&n=2")
    visitor.expect_done(2)
    visitor.see(field).fill(text)
    visitor.see("#paint-form .primary").click()
    visitor.expect_notice(said)
    expect(visitor.see(field)).to_be_focused()
    expect(visitor.see(field)).to_have_attribute("aria-invalid", "true")
    visitor.see(field).fill("4")
    visitor.see("#paint-form .primary").click()
    expect(visitor.see("#notice")).to_be_hidden()
    expect(visitor.see(field)).not_to_have_attribute("aria-invalid", "true")
    visitor.expect_done(4 if field == "#count" else 2)


@pytest.mark.parametrize("query", ["seed=x", "seed=3&n=1000", "seed=3&n=two", "seed=3&temperature=3"])
def test_a_wrong_link_paints_nothing(visit: Visit, server: Server, query: str) -> None:
    visitor = visit(f"{server.url}/?{query}")
    expect(visitor.see("#notice")).to_be_visible()
    expect(visitor.see(".tile")).to_have_count(0)


def test_a_link_to_another_model_says_so(visit: Visit, server: Server) -> None:
    visitor = visit(f"{server.url}/?model=other&seed=3&n=2")
    visitor.expect_done(2)
    visitor.expect_notice("There is no model other here; grey paints instead.")


def test_a_key_is_asked_for(visit: Visit, locked: Server) -> None:
    visitor = visit(f"{locked.url}/?seed=3&n=2")
    expect(visitor.see("#key")).to_be_focused()
    expect(visitor.see("#key-refusal")).to_be_hidden()
    visitor.page.keyboard.press("Escape")
    expect(visitor.see("#key-dialog")).to_be_visible()
    visitor.see("#key").fill("sk-wrong")
    visitor.page.keyboard.press("Enter")
    expect(visitor.see("#key-refusal")).to_have_text("Unknown API key.")
    visitor.see("#key").fill(KEY)
    visitor.see("#key-form .primary").click()
    visitor.expect_done(2)
    visitor.page.reload()
    visitor.expect_done(2)
    expect(visitor.see("#key-dialog")).to_be_hidden()
    assert KEY not in visitor.page.url
    visitor.forgive("401")


def test_what_the_api_refuses_is_said_in_its_words(visit: Visit, locked: Server) -> None:
    visitor = visit(f"{locked.url}/?seed=3&n=9")
    visitor.see("#key").fill(KEY)
    visitor.page.keyboard.press("Enter")
    visitor.expect_notice("n: 9 images are more than the 8 of one request.")
    expect(visitor.see("#stop")).to_be_hidden()
    visitor.forgive("401")


def test_a_dropped_connection_goes_on_with_the_same_pixels(visit: Visit, server: Server, client: httpx.Client) -> None:
    with wire_to(server.url) as wire:
        visitor = visit(f"{wire.url}/?seed=3&n=2")
        visitor.expect_done(2)
        engine = server.engine
        kill(engine, signal.SIGSTOP)  # so that it cannot be done before the connection is lost
        try:
            visitor.see("#seed").fill("")
            visitor.see("#count").fill("6")
            visitor.see("#paint-form .primary").click()
            expect(visitor.see(".tile")).to_have_count(6)
            expect(visitor.page).not_to_have_url(re.compile("seed=3&"))  # it has started
            wire.cut()
            visitor.expect_notice("The connection was lost. Trying again; the same seed goes on with the same pixels.")
        finally:
            kill(engine, signal.SIGCONT)
        wire.mend()
        visitor.expect_done(6)
        expect(visitor.see("#notice")).to_be_hidden()
        seed = int(httpx.URL(visitor.page.url).params["seed"])
        images = painted(client, n=6, seed=seed)
        assert (np.load(visitor.saved("#save-array")) == images).all()
        visitor.forgive("ERR_|WebSocket")
        visitor.page.context.close()


def test_a_server_that_cannot_be_reached_is_waited_for(visit: Visit, server: Server) -> None:
    visitor = visit(f"{server.url}/#complete")
    expect(visitor.see("#model")).to_be_enabled()
    visitor.page.route("**/v1/models", lambda route: route.abort())
    visitor.page.reload()
    visitor.expect_notice("The server cannot be reached. Trying again.")
    visitor.page.unroute("**/v1/models")
    expect(visitor.see("#model")).to_be_enabled()
    expect(visitor.see("#notice")).to_be_hidden()
    visitor.forgive("ERR_")
