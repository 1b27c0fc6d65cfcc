"""Errors, in a real browser: invalid fields and links, API keys,
errors of the API, lost connections.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from os import kill
from pathlib import Path

import httpx
from playwright.sync_api import expect

from tests.support.page.visitor import KEY, Visitor, painted
from tests.support.server.running_server import PATIENCE, Server, serve

COUNT = "The number of images must be an integer from 1 to 1024."
SEED = "The seed must be an integer from 0 to 9223372036854775807."
INVALID = [
    ("#count", "0", COUNT),
    ("#count", "1025", COUNT),
    ("#seed", "seven", SEED),
    ("#seed", str(2**63), SEED),
]


def error_message(server: Server, key: str, **fields: object) -> str:
    """The message of the error that the API returns for these fields."""
    headers = {"authorization": f"Bearer {key}"}
    response = httpx.post(
        f"{server.url}/v1/images/generations", json=fields, headers=headers, timeout=PATIENCE
    )
    assert response.is_error
    return response.json()["error"]["message"]


@contextmanager
def started_again(model: Path, port: str, visitor: Visitor) -> Iterator[Server]:
    """A server on that port, whose model has loaded only after the page has met it without."""
    server = Server(model, "--port", port)
    try:
        engine = server.wait_for_engine()
        kill(engine, signal.SIGSTOP)
        visitor.expect_notice("Loading grey.")
        kill(engine, signal.SIGCONT)
        yield server
    finally:
        server.stop()


def test_an_invalid_field_is_reported_and_marked(visit, server):
    visitor = visit(f"{server.url}/?seed=3&n=2", done=2)
    for field, text, message in INVALID:
        visitor.fill(field, text)
        visitor.click("#paint-form .primary")
        visitor.expect_notice(message)
        visitor.expect_focused(field)
        visitor.expect_attribute(field, "aria-invalid", "true")
        visitor.fill(field, "4")
        visitor.click("#paint-form .primary")
        visitor.expect_hidden("#notice")
        expect(visitor.see(field)).not_to_have_attribute("aria-invalid", "true")
        visitor.expect_done(4)


def test_an_invalid_link_paints_nothing(visit, server):
    visitor = visit("about:blank")
    for query in ("seed=x", "seed=3&n=two", "seed=3&n=2000", "seed=3&temperature=3", "write=2026"):
        visitor.page.goto(f"{server.url}/?{query}")
        visitor.expect_visible("#notice")
        visitor.expect_count(".tile", 0)
    visitor.expect_notice("This model cannot write: its classes are no characters.")


def test_a_server_that_is_away_at_first_is_waited_for(visit, server):
    visitor = visit("about:blank")
    visitor.page.route("**/v1/models", lambda route: route.abort("connectionrefused"))
    visitor.page.goto(f"{server.url}/?seed=3&n=2")
    visitor.expect_notice("The server cannot be reached. Retrying.")
    visitor.page.unroute("**/v1/models")
    visitor.expect_done(2)
    visitor.expect_hidden("#notice")
    visitor.expect_errors("ERR_CONNECTION_REFUSED")


def test_a_link_to_an_unknown_model_uses_the_default(visit, server):
    visitor = visit(f"{server.url}/?model=other&seed=3&n=2", done=2)
    visitor.expect_notice("There is no model other; using grey.")


def test_the_page_asks_for_an_api_key_and_shows_errors_of_the_api(visit, locked):
    visitor = visit(f"{locked.url}/?seed=3&n=2")
    visitor.expect_focused("#key")
    visitor.expect_hidden("#key-error")
    visitor.press("Escape")
    visitor.expect_visible("#key-dialog")
    visitor.fill("#key", "sk-wrong")
    visitor.press("Enter")
    visitor.expect_text("#key-error", error_message(locked, "sk-wrong", n=2))
    visitor.fill("#key", KEY)
    visitor.click("#key-form .primary")
    visitor.expect_done(2)
    visitor.page.reload()
    visitor.expect_done(2)
    visitor.expect_hidden("#key-dialog")
    assert KEY not in visitor.page.url
    visitor.page.goto(f"{locked.url}/?seed=3&n=9")
    visitor.expect_notice(error_message(locked, KEY, n=9))
    visitor.expect_hidden("#paint-stop")
    visitor.expect_errors("401")


def test_a_killed_server_started_again_continues_the_same_images(visit, grey_directory):
    with serve(grey_directory) as server:
        visitor = visit(f"{server.url}/?seed=3&n=2", done=2)
        port = server.url.rsplit(":", 1)[1]
        engine = server.engine
        kill(engine, signal.SIGSTOP)  # the job must not end before the server is killed
        visitor.fill("#seed", "")
        visitor.fill("#count", "6")
        visitor.click("#paint-form .primary")
        visitor.expect_text("#paint-says", "6 images · waiting for the first pixel")
        for process in (server.process.pid, engine):
            kill(process, signal.SIGKILL)
        visitor.expect_notice(
            "Connection lost. Reconnecting; the same seed continues the same images."
        )
        server.wait_until_exited()
    with started_again(grey_directory, port, visitor) as server, server.client() as client:
        visitor.expect_done(6)
        visitor.expect_hidden("#notice")
        images = painted(client, n=6, seed=int(httpx.URL(visitor.page.url).params["seed"]))
        assert (visitor.saved_images() == images).all()
        visitor.expect_errors("ERR_|WebSocket|503")
        visitor.page.go_back()
        visitor.expect_done(2)
        assert (visitor.saved_images() == painted(client, n=2, seed=3)).all()
        visitor.page.close()
