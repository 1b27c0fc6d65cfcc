"""Browsers that lack or refuse something, in a real one: storage, the
clipboard over plain HTTP, WebAssembly.
"""

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import expect

from tests.support.page.visitor import KEY, Visit, Visitor
from tests.support.server.running_server import Server, serve

STORAGES = """for (const name of ["localStorage", "sessionStorage"]) {
    Object.defineProperty(window, name, {get() { throw new DOMException("Access is denied.", "SecurityError"); }});
}"""
FULL = """Storage.prototype.setItem = () => { throw new DOMException("Full.", "QuotaExceededError"); };"""
LESS = """for (const name of ["WebAssembly", "CompressionStream", "OffscreenCanvas"]) delete window[name];"""
NO_COPYING = """document.execCommand = () => false;"""


def opened(visit: Visit, script: str, url: str) -> Visitor:
    visitor = visit("about:blank", color_scheme="light")
    visitor.page.add_init_script(script)
    visitor.page.goto(url)
    return visitor


@pytest.mark.parametrize("script", [STORAGES, FULL], ids=["blocked", "full"])
def test_without_storage_only_what_is_remembered_is_lost(
    visit: Visit, locked: Server, script: str
) -> None:
    visitor = opened(visit, script, f"{locked.url}/?seed=3&n=2")
    visitor.see("#key").fill(KEY)
    visitor.page.keyboard.press("Enter")
    visitor.expect_done(2)
    for theme in ("dark", "light"):
        visitor.see("#theme").click()
        expect(visitor.see("html")).to_have_attribute("data-theme", theme)
    visitor.see("#tab-complete").click()
    visitor.see("#thumbnails button").first.click()
    visitor.page.reload()  # the drawing is stored when the page is left
    expect(visitor.see("#key")).to_be_focused()
    visitor.page.goto(f"{locked.url}/docs")
    expect(visitor.see("#api")).to_contain_text("/v1/images/generations")
    visitor.expect_errors("401")


def test_by_name_over_plain_http_texts_are_copied(visit: Visit, locked: Server) -> None:
    """There is no navigator.clipboard then."""
    visitor = visit(
        locked.url.replace("127.0.0.1", "scanline.test") + "/?seed=3&n=2", color_scheme="light"
    )
    assert not visitor.page.evaluate("isSecureContext")
    visitor.see("#key").fill(KEY)
    visitor.page.keyboard.press("Enter")
    visitor.expect_done(2)
    visitor.see("#copy-link").click()
    expect(visitor.see("#copy-link")).to_have_text("Link copied")
    expect(visitor.see("#copy-link")).to_be_focused()
    visitor.see("#seed").fill("")
    visitor.page.keyboard.press("Control+V")
    expect(visitor.see("#seed")).to_have_value(visitor.page.url)
    visitor.see("#view-code").click()
    visitor.see("#code-copy").click()
    expect(visitor.see("#code-copied")).to_have_text("Copied.")
    visitor.page.evaluate(NO_COPYING)
    visitor.see("#code-copy").click()
    expect(visitor.see("#code-copied")).to_have_text("The browser does not allow copying.")
    visitor.expect_errors("401|Cross-Origin-Opener-Policy")


def test_a_site_that_the_settings_name_embeds_the_page(
    visit: Visit, grey_directory: Path, tmp_path: Path
) -> None:
    """Its storage is blocked as well, as many browsers do in a frame of another site."""
    with (
        ThreadingHTTPServer(
            ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path)
        ) as site,
        serve(
            grey_directory, "--frame-ancestor", origin := f"http://localhost:{site.server_port}"
        ) as server,
    ):
        Thread(target=site.serve_forever, daemon=True).start()
        (tmp_path / "index.html").write_text(
            f'<iframe src="{server.url}/?seed=3&n=2" width="900" height="900"></iframe>'
        )
        visitor = opened(visit, STORAGES, origin)
        meter = visitor.page.frame_locator("iframe").locator("#paint-meter")
        expect(meter).to_contain_text("2 of 2 images")
        visitor.expect_errors("404")
        site.shutdown()


def test_what_a_browser_lacks_is_said_where_it_is_needed(visit: Visit, classified: Server) -> None:
    visitor = opened(visit, LESS, f"{classified.url}/?model=guided&seed=3&n=2")
    visitor.expect_done(2)
    visitor.see("#tab-device").click()
    visitor.see("#device-go").click()
    visitor.expect_notice("This browser has no WebAssembly: painting in it needs it.")
    visitor.see("#tab-compress").click()
    visitor.see("#coded-thumbnails button").first.click()
    expect(visitor.see("#lengths")).to_contain_text("PNG")
