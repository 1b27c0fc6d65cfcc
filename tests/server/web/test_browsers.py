"""Browsers that lack or refuse something, in a real one: storage, the
clipboard over plain HTTP, WebAssembly.
"""

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playwright.sync_api import expect

from tests.support.page.visitor import KEY, Visit, Visitor
from tests.support.server.running_server import serve

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
def test_without_storage_only_what_is_remembered_is_lost(visit, locked, script):
    visitor = opened(visit, script, f"{locked.url}/?seed=3&n=2")
    visitor.fill("#key", KEY)
    visitor.press("Enter")
    visitor.expect_done(2)
    for theme in ("dark", "light"):
        visitor.click("#theme")
        visitor.expect_attribute("html", "data-theme", theme)
    visitor.click("#tab-complete")
    visitor.see("#thumbnails button").first.click()
    visitor.page.reload()  # the drawing is stored when the page is left
    visitor.expect_focused("#key")
    visitor.page.goto(f"{locked.url}/docs")
    visitor.expect_contains("#api", "/v1/images/generations")
    visitor.expect_errors("401")


def test_by_name_over_plain_http_texts_are_copied(visit, locked):
    """There is no navigator.clipboard then."""
    visitor = visit(
        locked.url.replace("127.0.0.1", "scanline.test") + "/?seed=3&n=2", color_scheme="light"
    )
    assert not visitor.page.evaluate("isSecureContext")
    visitor.fill("#key", KEY)
    visitor.press("Enter")
    visitor.expect_done(2)
    visitor.expect_hidden("#share")
    visitor.click("#copy-link")
    visitor.expect_text("#copy-link", "Link copied")
    visitor.expect_focused("#copy-link")
    visitor.fill("#seed", "")
    visitor.press("Control+V")
    visitor.expect_value("#seed", visitor.page.url)
    visitor.click("#view-code")
    visitor.click("#code-copy")
    visitor.expect_text("#code-copied", "Copied.")
    visitor.page.evaluate(NO_COPYING)
    visitor.click("#code-copy")
    visitor.expect_text("#code-copied", "The browser does not allow copying.")
    visitor.expect_errors("401|Cross-Origin-Opener-Policy")


def test_a_site_that_the_settings_name_embeds_the_page(visit, grey_directory, tmp_path):
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


def test_what_a_browser_lacks_is_said_where_it_is_needed(visit, classified):
    visitor = opened(visit, LESS, f"{classified.url}/?model=guided&seed=3&n=2")
    visitor.expect_done(2)
    visitor.click("#tab-device")
    visitor.click("#device-go")
    visitor.expect_notice("This browser has no WebAssembly: painting in it needs it.")
    visitor.click("#tab-compress")
    visitor.see("#coded-thumbnails button").first.click()
    visitor.expect_contains("#lengths", "PNG")
