"""What a visitor comes back to: tabs after a restart, files that the page saved, errors that leave with their tab."""

import signal
from os import kill
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from tests.server.web.test_complete import picture
from tests.server.web.test_compress import SAME, code_of
from tests.support.page.visitor import Visit, Visitor
from tests.support.pictures import encode
from tests.support.server.running_server import Server, serve

AWAY = "The server cannot be reached. Retrying."
DROP = """file => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([Uint8Array.from(file)], "noise.png"));
    window.dispatchEvent(new DragEvent("drop", {dataTransfer}));
}"""


def choose(visitor: Visitor, field: str, name: str, content: bytes) -> None:
    visitor.see(field).set_input_files({"name": name, "mimeType": "application/octet-stream", "buffer": content})


def test_every_tab_goes_on_after_a_restart_of_the_server(visit: Visit, grey_directory: Path) -> None:
    with serve(grey_directory) as server:
        port, engine = server.url.rsplit(":", 1)[1], server.engine
        compress, how, late = (visit(f"{server.url}/?seed=3&n=2#{tab}") for tab in ("compress", "how", "paint"))
        expect(compress.see("#coded-status")).to_have_text(SAME)
        expect(how.see("#bars figure")).to_be_visible()
        late.expect_done(2)
        kill(engine, signal.SIGSTOP)  # no answer before the server is killed
        choose(compress, "#coded-upload", "one.png", encode(picture()))
        how.see("#layer").dispatch_event("change")
        expect(compress.see("#coded-status")).to_have_text("Asking for the code of this picture.")
        for of_another in ("#coded-form", "#lengths", "#coded-place"):
            expect(compress.see(of_another)).to_be_hidden()
        expect(how.see("#how-status")).to_have_text("Asking the server for the numbers of this image.")
        for process in (server.process.pid, engine):
            kill(process, signal.SIGKILL)
        late.see("#tab-compress").click()
        for visitor in (compress, how, late):
            visitor.expect_notice(AWAY)
        server.wait_until_exited()
    server = Server(grey_directory, "--port", port)
    try:
        server.wait_for_engine()
        with server.client() as client:
            expect(compress.see("#coded-status")).to_have_text(SAME)
            expect(compress.see("#code-text")).to_have_value(code_of(client, picture()).hex())
        expect(how.see("#how-status")).not_to_contain_text("Asking")
        expect(late.see("#coded-status")).to_have_text(SAME)
        for visitor in (compress, how, late):
            expect(visitor.see("#notice")).to_be_hidden()
            visitor.expect_errors("ERR_|WebSocket|503")
            visitor.page.close()
    finally:
        server.stop()


def test_every_file_that_the_page_saves_opens_on_it(visit: Visit, server: Server, client: httpx.Client) -> None:
    visitor = visit(f"{server.url}/?seed=3&n=3", reduced_motion="reduce")
    visitor.expect_done(3)
    buttons = ("#save-array", "#save-zip", "#save-film", "#save-sheet")
    array, archive, film, sheet = (visitor.saved(button) for button in buttons)
    images = np.load(array)
    visitor.see("#tab-compress").click()
    expect(visitor.see("#coded-status")).to_have_text(SAME)
    code, own = visitor.saved("#code-save"), visitor.see("#code-text")
    black = np.zeros_like(images[0])
    for file in (array, archive, code):
        choose(visitor, "#coded-upload", "black.png", encode(black))
        expect(own).to_have_value(code_of(client, black).hex())
        visitor.see("#coded-upload").set_input_files(file)
        expect(own).to_have_value(code_of(client, images[0]).hex())
        assert (visitor.pixels("#coded-picture")[..., 0] == images[0]).all()
    for file in (film, sheet):  # of 2 x 2 images: the film's last frame shows them finished
        visitor.see("#coded-upload").set_input_files(file)
        expect(visitor.see("#coded-status")).to_contain_text(" pixels was shrunk to 5 \u00d7 7.")
        assert visitor.pixels("#coded-picture")[..., 0].mean() == pytest.approx(images.sum() / 4 / 35, abs=8)


def test_what_was_changed_of_a_file_is_said(visit: Visit, server: Server) -> None:
    visitor = visit(f"{server.url}/#compress", reduced_motion="reduce")
    expect(visitor.see("#coded-status")).to_have_text(SAME)
    noise = encode(np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8))
    choose(visitor, "#coded-upload", "noise.png", noise)
    changed = "The file of 80 \u00d7 60 pixels was cropped, shrunk to 5 \u00d7 7 and made grey."
    expect(visitor.see("#coded-status")).to_contain_text(changed)
    expect(visitor.see("#coded-longer")).to_be_visible()  # noise is
    visitor.see("#tab-paint").click()
    visitor.page.evaluate(DROP, [*noise])  # on a tab that takes no pictures
    expect(visitor.see("#tab-complete")).to_have_attribute("aria-selected", "true")
    expect(visitor.see("#adapted")).to_have_text(changed)


def test_an_error_leaves_with_its_tab(visit: Visit, server: Server) -> None:
    visitor = visit(f"{server.url}/?seed=3&n=2#complete")
    visitor.expect_ready()
    choose(visitor, "#upload", "one.svg", b"<svg/>")
    visitor.expect_notice("The browser cannot read one.svg as an image.")
    visitor.see("#tab-paint").click()
    expect(visitor.see("#notice")).to_be_hidden()
